"""Rows without labels follow those of a data set, from files and other data sets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from road_ray.data.catalog import task
from road_ray.data.config import SourceConfig
from road_ray.data.examples import UNKNOWN
from road_ray.data.load_split import find_dataset, load_split
from road_ray.data.tokenizer import train_wordpiece
from road_ray.data.training_rows import read_unlabelled
from road_ray.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def tokenizer(world):
    return train_wordpiece([(world / "squad" / "train-v2.0.json").read_text()], vocab_size=600)


@pytest.fixture
def train(world, tokenizer):
    def load(name, *unlabelled, **changes):
        source = SourceConfig(root=str(world), cache="off", **changes)
        return load_split(name, "train", source, tokenizer, unlabelled=unlabelled)

    return load


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_texts_of_every_layout_follow_without_labels(train, tmp_path):
    plain = train("sst2")
    lines = tmp_path / "more.txt"
    lines.write_text("a fine film\n\ndull\n")
    named = write(tmp_path / "more.jsonl", [{"sentence": "one", "label": "9"}, {"sentence": "two"}])
    usual = tmp_path / "more.csv"
    usual.write_text("text\nthree\n")
    split = train("sst2", str(lines), named, str(usual))
    new = split.examples[len(plain.examples) :]
    assert [e.texts[0] for e in new] == ["a fine film", "dull", "one", "two", "three"]
    assert {e.label for e in new} == {None}
    labels = split.features.gold["labels"]
    assert np.array_equal(labels[: -len(new)], plain.features.gold["labels"])
    assert (labels[-len(new) :] == UNKNOWN).all()
    assert len({e.id for e in split.examples}) == len(split.examples)


def test_a_column_of_text_may_be_called_answers(tmp_path):
    path = write(tmp_path / "x.jsonl", [{"answers": "forty-two", "id": 7}])
    own = {"train": "t.csv", "text": ["answers"], "labels": ["a", "b"]}
    entry, kind = find_dataset("mine", SourceConfig(sets={"mine": own}))
    assert [e.texts for e in read_unlabelled(Path(path), entry, kind)] == [("forty-two",)]


def test_max_rows_counts_labelled_rows_only(train, tmp_path):
    more_rows = tmp_path / "more.txt"
    more_rows.write_text("a\nb\nc\n")
    assert len(train("sst2", str(more_rows), max_rows=5).examples) == 5 + 3


@pytest.mark.parametrize("name", ["sst2", "squad_v2"])
def test_the_rest_are_the_rows_beyond_the_labelled_ones(train, name):
    whole, split = train(name), train(name, "rest", max_rows=40)
    first, rest = split.examples[:40], split.examples[40:]
    assert not any(example == example.unlabelled() for example in first)
    assert all(example == example.unlabelled() for example in rest)
    texts = [getattr(e, "texts", None) or (e.question, e.context) for e in split.examples]
    assert sorted(texts) == sorted(
        getattr(e, "texts", None) or (e.question, e.context) for e in whole.examples
    )
    few = train(name, "rest", max_rows=40, max_unlabelled_rows=7)
    assert len(few.examples) == 47


@pytest.mark.parametrize("most", [None, 10_000])
def test_no_rest_is_an_error(train, most):
    with pytest.raises(ConfigError, match="keep their labels"):
        train("sst2", "rest", max_rows=most)


def test_a_data_set_is_used_without_its_labels(train):
    alone, other = train("rte"), train("qqp")
    split = train("rte", "qqp")
    assert len(split.examples) == len(alone.examples) + len(other.examples)
    assert (split.features.gold["labels"][len(alone.examples) :] == UNKNOWN).all()


def test_questions_without_answers_are_unknown_and_not_unanswerable(train, world, tmp_path):
    known = train("squad_v2")
    more = write(tmp_path / "more.jsonl", [{"question": "who ?", "context": "Ada wrote it ."}])
    split = train("squad_v2", more, "squad_v2", str(world / "squad" / "train-v2.0.json"))
    rows = len(known.features)
    for name in ("start_positions", "end_positions"):
        values = split.features.gold[name]
        assert np.array_equal(values[:rows], known.features.gold[name])
        assert (values[rows:] == UNKNOWN).all()
    assert len(split.features) == 3 * rows + 1


@pytest.mark.parametrize(
    ("dataset", "name", "content", "message"),
    [
        ("sst2", "no.csv", None, "no such file, and no data set"),
        ("sst2", "a.csv", "body\nx\n", r"no column 'sentence'; found: body"),
        ("rte", "a.txt", "one text\n", "no column 'sentence2'"),
        ("sst2", "a.xlsx", "x", r"\.xlsx is not a supported table"),
        ("squad_v2", "a.txt", "x\n", r"\.txt is not a supported table"),
        ("sst2", "a.txt", "\n", "0 usable rows"),
        ("sst2", "rte", None, "rows of 2 texts, sst2 of 1"),
        ("sst2", "squad_v2", None, "of kind Span, sst2 of kind Classify"),
    ],
)
def test_what_cannot_be_taught_is_refused_by_name(train, tmp_path, dataset, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
        name = str(tmp_path / name)
    with pytest.raises((ConfigError, DataError), match=message):
        train(dataset, name)


def test_tags_are_refused(tmp_path):
    from road_ray.data.catalog import dataset

    with pytest.raises(ConfigError, match="rows of tags cannot be unlabelled"):
        read_unlabelled(tmp_path / "a.jsonl", dataset("conll2003"), task("ner"))
