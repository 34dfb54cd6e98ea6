"""Rows are shown as the model sees them, with their gold in words."""

from __future__ import annotations

import pytest

from road_ray.data.config import SourceConfig
from road_ray.data.inspection.split_preview import format_examples, format_rows


@pytest.fixture
def source(world):
    return SourceConfig(root=str(world))


@pytest.fixture
def vocabulary(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    return str(tmp_path)


def test_answers_are_the_tokens_between_their_ends(source, vocabulary):
    lines = format_rows("squad_v2", "train", source, vocabulary, 40).splitlines()
    answers = 0
    for tokens, gold in zip(lines[2::3], lines[3::3], strict=True):
        if gold != "  gold: no answer in this window":
            words, _, place = gold.removeprefix("  gold: ").partition("  (tokens ")
            start, end = map(int, place.rstrip(")").split(" to "))
            assert tokens.split()[start : end + 1] == words.split()
            answers += 1
    assert 0 < answers < 40


def test_a_split_without_labels_is_shown_too(source, vocabulary):
    assert "gold: unknown" in format_rows("sst2", "test", source, vocabulary, 1)


def test_examples_are_shown_without_a_tokenizer(source):
    shown = format_examples("squad_v2", "train", source, 40)
    assert shown.startswith("squad_v2 train: 128 examples; ")
    assert "  gold: no answer" in shown
    assert "(character " in shown
