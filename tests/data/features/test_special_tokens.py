"""Rows of tokenizers that place special tokens in another way than BERT's."""

from __future__ import annotations

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from road_ray.data import catalog
from road_ray.data.features.batch_tokenization import tokenized
from road_ray.data.features.encode_examples import encode
from road_ray.data.features.examples_and_features import (
    Answer,
    SpanExample,
    TagExample,
    TextExample,
)
from road_ray.data.features.special_tokens import special_tokens, word_prefix
from road_ray.errors import ConfigError
from tests.published import FAMILIES, TEXTS, tokenizer_of


@pytest.fixture(scope="module")
def tokenizers():
    return {family: tokenizer_of(family) for family in FAMILIES}


def whole(dataset, examples, tokenizer, **options):
    entry = catalog.dataset(dataset)
    return encode(examples, entry, catalog.task(entry.task), tokenizer, **options)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_pair_is_what_the_tokenizer_itself_makes_of_it(family, tokenizers):
    tokenizer, pair = tokenizers[family], TEXTS[:2]
    rows = whole("rte", [TextExample("1", pair, None, "f:1")], tokenizer)
    encoded = tokenizer(*pair)
    assert rows.row(0).tolist() == encoded["input_ids"]
    second = encoded.sequence_ids(0).index(1)
    assert rows.first_segment.tolist() == [second]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sentence_is_what_the_tokenizer_itself_makes_of_it(family, tokenizers):
    rows = whole("sst2", [TextExample("1", TEXTS[:1], None, "f:1")], tokenizers[family])
    assert rows.row(0).tolist() == tokenizers[family](TEXTS[0])["input_ids"]


def test_roberta_has_two_separators_between_texts(tokenizers):
    special = special_tokens(tokenizers["roberta"], 2)
    first, end = (tokenizers["roberta"].convert_tokens_to_ids(name) for name in ("<s>", "</s>"))
    assert (special.before.tolist(), special.after.tolist()) == ([first], [end])
    assert special.between.tolist() == [end, end]
    assert special.count == 4


@pytest.mark.parametrize("family", FAMILIES)
def test_words_of_a_tagged_sentence_are_cut_as_within_a_text(family, tokenizers):
    words = ("Nobody", "in", "New", "Zealand", "knew")
    rows = whole("conll2003", [TagExample("1", words, None, "f:1")], tokenizers[family])
    text = tokenizers[family](word_prefix(tokenizers[family]) + " ".join(words))["input_ids"]
    assert rows.row(0).tolist() == text
    assert rows.words is not None
    assert rows.words[rows.words >= 0].tolist() == [0, 1, 2, 3, 4]


def test_only_byte_level_tokenizers_want_a_space_before_a_word(tokenizers):
    spaced = {family for family in FAMILIES if word_prefix(tokenizers[family])}
    assert spaced == {"roberta", "modernbert"}


@pytest.mark.parametrize("family", FAMILIES)
def test_offsets_show_letters_without_the_space_before_them(family, tokenizers):
    rows = tokenized(TEXTS, tokenizers[family], offsets=True)
    assert rows.offsets is not None
    for text, start, length in zip(TEXTS, rows.starts, rows.lengths, strict=True):
        shown = [text[a:b] for a, b in rows.offsets[start : start + length]]
        assert [part.strip() or part for part in shown] == shown  # a token of a space alone


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_are_the_tokens_that_show_them(family, tokenizers):
    context = TEXTS[1]
    for text in ("New Zealand", "1995", "Nobody"):
        answer = Answer(text, context.index(text))
        example = SpanExample("1", "who?", context, (answer,), "f:1")
        rows = whole("squad_v1", [example], tokenizers[family])
        assert rows.offsets is not None
        first, last = (int(rows.gold[f"{end}_positions"][0]) for end in ("start", "end"))
        begin, end = rows.offsets[first][0], rows.offsets[last][1]
        assert text in context[begin:end]
        assert len(context[begin:end]) <= len(text) + 1  # a final letter may share its piece
        assert (rows.offsets[: rows.first_segment[0]] == -1).all()


def test_a_window_has_room_for_four_special_tokens(tokenizers):
    example = SpanExample("1", "who?", " ".join(TEXTS), (), "f:1")
    limits = {"stride_tokens": 2, "max_question_tokens": 8}
    rows = whole("squad_v1", [example], tokenizers["roberta"], max_length_tokens=24, **limits)
    assert rows.lengths.max() == 24
    message = "4 special tokens\n  fix: max_length_tokens >= 13"
    with pytest.raises(ConfigError, match=message):
        whole("squad_v1", [example], tokenizers["roberta"], max_length_tokens=12, **limits)


def test_a_tokenizer_of_a_decoder_is_refused(tokenizers):
    backend = tokenizers["roberta"].backend_tokenizer
    plain = PreTrainedTokenizerFast(tokenizer_object=type(backend).from_str(backend.to_str()))
    plain.backend_tokenizer.post_processor = None
    with pytest.raises(ConfigError, match="no special token before a text"):
        special_tokens(plain, 1)


def test_without_a_post_processor_rows_are_those_of_bert(tokenizers):
    backend = tokenizers["bert"].backend_tokenizer
    bare = type(backend).from_str(backend.to_str())
    bare.post_processor = None
    plain = PreTrainedTokenizerFast(tokenizer_object=bare, cls_token="[CLS]", sep_token="[SEP]")
    ours, theirs = (special_tokens(item, 2) for item in (plain, tokenizers["bert"]))
    for part in ("before", "between", "after"):
        assert np.array_equal(getattr(ours, part), getattr(theirs, part))
