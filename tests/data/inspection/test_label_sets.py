"""Guesses of columns with any number of labels, and of files that have none."""

from __future__ import annotations

import random

import pytest

from road_ray.data.inspection.guess import Wishes, guess
from road_ray.errors import ConfigError
from tests.data.inspection.test_guess import table, texts

NAMES = ("anger", "fear", "joy")


def label_sets(number):
    drawn = random.Random(1)
    return [[name for name in NAMES if drawn.random() < 0.5] for _ in range(number)]


def entry_of(place, **wishes):
    made = guess(place, Wishes(**wishes))
    return {key: value for key, value in made.entry.items() if key not in ("train", "dev_fraction")}


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_column_of_lists(tmp_path, suffix):
    place = table(tmp_path / f"moods{suffix}", body=texts(40), labels=label_sets(40))
    expected = {"kind": "multi", "text": ["body"], "label": "labels", "labels": [*NAMES]}
    assert entry_of(place) == expected
    other = table(tmp_path / f"other{suffix}", body=texts(40), moods=label_sets(40))
    assert entry_of(other, label="moods") == expected | {"label": "moods"}
    assert entry_of(other, kind="multi") == expected | {"label": "moods"}


@pytest.mark.parametrize("separator", [";", "|", ", "])
def test_a_column_of_separated_texts(tmp_path, separator):
    cells = [f'"{separator.join(names)}"' for names in label_sets(40)]
    place = table(tmp_path / "moods.csv", body=texts(40), tags=cells)
    assert entry_of(place) == {
        **{"kind": "multi", "text": ["body"], "label": "tags", "separator": separator.strip()},
        "labels": [*NAMES],
    }
    other = table(tmp_path / "other.csv", body=texts(40), x=cells)
    assert entry_of(other, label="x")["separator"] == separator.strip()


def test_columns_of_0_and_1(tmp_path):
    marks = {n: [int(n in names) for names in label_sets(40)] for n in NAMES}
    place = table(tmp_path / "moods.csv", id=list(range(40)), body=texts(40), **marks)
    made = guess(place)
    assert made.entry == {
        **{"kind": "multi", "text": ["body"], "label": [*NAMES], "id": "id"},
        **{"train": place, "dev_fraction": 0.1},
    }
    assert "any of 3 labels for a text (multi), " in made.reasons[0]
    two = dict([*marks.items()][:2])
    pair = table(tmp_path / "two.csv", body=texts(40), **two)
    with pytest.raises(ConfigError, match=r"2 columns could be the label(.|\n)*by --kind multi"):
        guess(pair)
    assert entry_of(pair, kind="multi")["label"] == ["anger", "fear"]
    assert guess(pair, Wishes(label="anger")).kind == "classify"
    beside = table(tmp_path / "beside.csv", body=texts(40), label=["a", "b"] * 20, **marks)
    assert entry_of(beside)["label"] == "label"


def test_spellings_of_one_label_and_those_of_the_dev_split(tmp_path):
    (tmp_path / "moods").mkdir()
    for split, names in {
        "train": [["Joy"], ["joy"], ["fear", "joy"]] * 8,
        "dev": [["awe"]],
    }.items():
        table(tmp_path / "moods" / f"{split}.jsonl", body=texts(len(names)), labels=names)
    found = entry_of(str(tmp_path / "moods"))
    assert (found["labels"], found["label_map"]) == (["awe", "fear", "joy"], {"Joy": "joy"})


@pytest.mark.parametrize(
    "cells",
    [
        ['"Oslo, Norway"', '"Paris, France"', '"Rome, Italy"', '"Bern, Switzerland"'] * 10,
        ["a;a", "b", "a", "b;b"] * 10,
        ["good", "bad"] * 20,
    ],
)
def test_a_class_with_a_mark_in_it_is_one_label(tmp_path, cells):
    place = table(tmp_path / "places.csv", body=texts(40), labels=cells)
    assert guess(place).kind == "classify"
    with pytest.raises(ConfigError, match="no column 'labels' with several labels a row"):
        guess(place, Wishes(kind="multi", label="labels"))


def test_lists_that_may_be_choices_are_asked_about(tmp_path):
    choices = [[f"a {n}", f"b {n}"] for n in range(40)]
    place = table(tmp_path / "q.jsonl", body=texts(40), options=choices, label=["0", "1"] * 20)
    with pytest.raises(ConfigError, match=r"'options' has lists(.|\n)*--kind multi --label o"):
        guess(place)
    with pytest.raises(ConfigError, match="no columns with several labels a row"):
        guess(place, Wishes(kind="multi"))
