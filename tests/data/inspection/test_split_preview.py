"""Rows are shown as the model sees them, with their gold in words."""

from __future__ import annotations

import pytest

from road_ray.data.config import SourceConfig
from road_ray.data.inspection.split_preview import format_examples, format_rows
from road_ray.data.tokenizer import train_wordpiece


@pytest.fixture(scope="module")
def vocabulary(world, tmp_path_factory):
    words = (world / "squad" / "train-v2.0.json").read_text()
    place = tmp_path_factory.mktemp("vocabulary")
    train_wordpiece([words], vocab_size=800).save_pretrained(place)
    return str(place)


def source(world):
    return SourceConfig(root=str(world))


def test_labels_are_named(world, vocabulary):
    lines = format_rows("mnli", "dev", source(world), vocabulary, 3).splitlines()
    assert lines[0].startswith("mnli dev: 25 examples, 25 rows, tokens a row: mean ")
    gold = [line.removeprefix("  gold: ") for line in lines if line.startswith("  gold: ")]
    assert len(gold) == 3
    assert set(gold) <= {"contradiction", "entailment", "neutral"}
    assert all(line.count("[SEP]") == 2 for line in lines if line.startswith("[CLS]"))


def test_answers_are_the_tokens_between_their_ends(world, vocabulary):
    text = format_rows("squad_v2", "train", source(world), vocabulary, 40)
    lines = text.splitlines()
    answers = 0
    for tokens, gold in zip(lines[2::3], lines[3::3], strict=True):
        if gold != "  gold: no answer in this window":
            words, _, place = gold.removeprefix("  gold: ").partition("  (tokens ")
            start, end = map(int, place.rstrip(")").split(" to "))
            assert tokens.split()[start : end + 1] == words.split()
            answers += 1
    assert 0 < answers < 40


def test_a_split_without_labels_is_shown_too(world, vocabulary):
    assert "gold: -100" not in format_rows("sst2", "test", source(world), vocabulary, 1)
    assert "gold: unknown" in format_rows("sst2", "test", source(world), vocabulary, 1)


def test_examples_are_shown_without_a_tokenizer(world):
    chosen = source(world)
    lines = format_examples("mnli", "dev", chosen, 2).splitlines()
    assert lines[0].startswith("mnli dev: 25 examples; entailment ")
    assert lines[0].count(" (") == 3
    gold = [line.removeprefix("  gold: ") for line in lines if line.startswith("  gold: ")]
    assert len(gold) == 2
    assert set(gold) <= {"contradiction", "entailment", "neutral"}
    shown = format_examples("squad_v2", "train", chosen, 40)
    assert shown.startswith("squad_v2 train: 128 examples; ")
    assert "  gold: no answer" in shown
    assert "(character " in shown
