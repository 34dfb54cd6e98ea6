"""Files that arms share: rows without labels, wrong labels, text of a domain."""

from __future__ import annotations

import json

import pytest

from road_ray.data.config import SourceConfig
from road_ray.data.load_split import load_split
from road_ray.data.tokenizer import load_tokenizer
from road_ray.errors import ConfigError, DataError
from road_ray.experiment.data_files import (
    num_labelled,
    training_examples,
    write_domain_text,
    write_noisy,
    write_unlabelled,
)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def source(world):
    return SourceConfig(root=str(world), max_rows=40)


def test_rows_without_labels_are_those_beyond_the_labelled_ones(source, pretrained, tmp_path):
    path = tmp_path / "rows" / "unlabelled.jsonl"
    whole = training_examples("sst2", source)
    assert write_unlabelled(path, "sst2", source, None) == len(whole) - 40
    tokenizer = load_tokenizer(pretrained.hf_dir)
    labelled = load_split("sst2", "train", source, tokenizer).examples
    texts = [item.texts[0] for item in labelled] + [row["text"] for row in lines(path)]
    assert sorted(texts) == sorted(item.texts[0] for item in whole)
    assert set(lines(path)[0]) == {"text"}
    with_them = load_split("sst2", "train", source, tokenizer, unlabelled=[str(path)])
    assert (with_them.features.gold["labels"] == -100).sum() == len(whole) - 40


def test_fewer_rows_can_be_asked_for_and_a_second_call_counts_them(source, tmp_path):
    path = tmp_path / "unlabelled.jsonl"
    assert write_unlabelled(path, "sst2", source, 7) == 7
    before = path.stat().st_mtime_ns
    assert write_unlabelled(path, "sst2", source, 7) == 7
    assert path.stat().st_mtime_ns == before


def test_questions_keep_their_context(source, tmp_path):
    write_unlabelled(tmp_path / "q.jsonl", "squad_v2", source, 3)
    assert all(set(row) == {"question", "context"} for row in lines(tmp_path / "q.jsonl"))


def test_no_rows_left_is_an_error(source, tmp_path):
    whole = source.model_copy(update={"max_rows": None})
    with pytest.raises(ConfigError, match="keep their labels"):
        write_unlabelled(tmp_path / "x.jsonl", "sst2", whole, None)
    assert num_labelled("sst2", source) == 40
    assert num_labelled("sst2", whole) == len(training_examples("sst2", whole))


@pytest.mark.parametrize(("name", "fraction"), [("sst2", 0.2), ("mnli", 0.1), ("sst2", 0.0)])
def test_exactly_the_asked_share_of_labels_is_another(source, pretrained, tmp_path, name, fraction):
    entry = write_noisy(tmp_path / "noisy.jsonl", name, source, fraction)
    tokenizer = load_tokenizer(pretrained.hf_dir)
    clean = load_split(name, "train", source, tokenizer)
    wrong = source.model_copy(update={"sets": {"noisy": entry}, "max_rows": None})
    noisy = load_split("noisy", "train", wrong, tokenizer)
    assert [example.texts for example in noisy.examples] == [
        example.texts for example in clean.examples
    ]
    assert noisy.task == clean.task
    differ = clean.features.gold["labels"] != noisy.features.gold["labels"]
    assert differ.sum() == round(fraction * 40)


def test_labels_of_spans_cannot_be_flipped(source, tmp_path):
    with pytest.raises(ConfigError, match=r"data\.dataset = squad_v2: noisy_labels"):
        write_noisy(tmp_path / "x.jsonl", "squad_v2", source, 0.1)


def test_the_text_of_a_domain_has_every_text_once(source, tmp_path):
    write_domain_text(tmp_path / "text.jsonl", "squad_v2", source)
    texts = [row["text"] for row in lines(tmp_path / "text.jsonl")]
    contexts = {example.context for example in training_examples("squad_v2", source)}
    assert len(texts) == len(set(texts))
    assert set(texts) == contexts


def test_tags_have_no_text_of_their_own(tmp_path, real_data):
    source = SourceConfig(root=str(real_data))
    with pytest.raises(DataError, match="tags or choices"):
        write_domain_text(tmp_path / "x.jsonl", "conll2003", source)
