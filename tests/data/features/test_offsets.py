"""Offsets and answers of tokenizers of any kind."""

from __future__ import annotations

import pytest

from road_ray.data import catalog
from road_ray.data.examples import Answer, SpanExample
from road_ray.data.features.encode_examples import encode
from road_ray.errors import ConfigError
from tests.published import FAMILIES, TEXTS, tokenizer_of


@pytest.fixture(scope="module")
def tokenizers():
    return {family: tokenizer_of(family) for family in FAMILIES}


def whole(examples, tokenizer, **options):
    entry = catalog.dataset("squad_v1")
    return encode(examples, entry, catalog.task(entry.task), tokenizer, **options)


@pytest.mark.parametrize("family", FAMILIES)
def test_offsets_show_letters_without_the_space_before_them(family, tokenizers):
    for text in TEXTS:
        rows = whole([SpanExample("1", "who?", text, (), "f:1")], tokenizers[family])
        shown = [text[a:b] for a, b in rows.offsets if a >= 0]
        assert [part.strip() or part for part in shown] == shown  # a token of a space alone


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_are_the_tokens_that_show_them(family, tokenizers):
    context = TEXTS[1]
    for text in ("New Zealand", "1995", "Nobody"):
        answer = Answer(text, context.index(text))
        rows = whole([SpanExample("1", "who?", context, (answer,), "f:1")], tokenizers[family])
        first, last = (int(rows.gold[f"{end}_positions"][0]) for end in ("start", "end"))
        begin, end = rows.offsets[first][0], rows.offsets[last][1]
        assert text in context[begin:end]
        assert len(context[begin:end]) <= len(text) + 1  # a final letter may share its piece
        assert (rows.offsets[: rows.first_segment[0]] == -1).all()


def test_a_window_has_room_for_four_special_tokens(tokenizers):
    example = SpanExample("1", "who?", " ".join(TEXTS), (), "f:1")
    limits = {"stride_tokens": 2, "max_question_tokens": 8}
    rows = whole([example], tokenizers["roberta"], max_length_tokens=24, **limits)
    assert rows.lengths.max() == 24
    message = "4 special tokens\n  fix: data.max_length_tokens=13 or more, or fewer data.max_q"
    with pytest.raises(ConfigError, match=message):
        whole([example], tokenizers["roberta"], max_length_tokens=12, **limits)
