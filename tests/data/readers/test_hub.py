"""The hub's copies give the examples that the published files give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from road_ray.data.catalog import dataset
from road_ray.data.features.types import Answer, TextExample
from road_ray.data.readers.hub import hub_examples, read_hub
from road_ray.data.schema import Hub
from road_ray.errors import ConfigError, DataError


def table(names: list[str] | None = None, **columns: list[Any]) -> Any:
    import datasets

    rows = datasets.Dataset.from_dict(columns)
    return rows.cast_column("label", datasets.ClassLabel(names=names)) if names else rows


def test_class_numbers_become_what_the_files_say() -> None:
    qqp = table(
        ["not_duplicate", "duplicate"], question1=["a"], question2=["b"], label=[1], idx=[9]
    )
    nli = table(
        ["entailment", "neutral", "contradiction"],
        premise=["a", "c", "e"], hypothesis=["b", "d", "f"], label=[2, -1, 0], idx=[0, 1, 2],
    )  # fmt: skip

    assert hub_examples(dataset("qqp"), qqp, "hub", labelled=True) == [
        TextExample("9", ("a", "b"), "1", "hub:1")
    ]
    assert hub_examples(dataset("mnli"), nli, "hub", labelled=True) == [
        TextExample("0", ("a", "b"), "contradiction", "hub:1"),
        TextExample("2", ("e", "f"), "entailment", "hub:3"),
    ]
    hidden = hub_examples(dataset("mnli"), nli, "hub", labelled=False)
    assert [getattr(e, "label", "") for e in hidden] == ["contradiction", None, "entailment"]


def test_numbers_and_spans_come_from_the_hub_too() -> None:
    stsb = table(sentence1=["a"], sentence2=["b"], label=[2.5], idx=[0])
    squad = table(
        id=["q1", "q2"], title=["t", "t"], context=["a b", "a b"], question=["x", "y"],
        answers=[{"text": ["b"], "answer_start": [2]}, {"text": [], "answer_start": []}],
    )  # fmt: skip

    assert hub_examples(dataset("stsb"), stsb, "hub", labelled=True) == [
        TextExample("0", ("a", "b"), "2.5", "hub:1")
    ]
    spans = hub_examples(dataset("squad_v2"), squad, "hub", labelled=True)
    assert [getattr(e, "answers", None) for e in spans] == [(Answer("b", 2),), ()]


def test_other_columns_on_the_hub_are_named() -> None:
    with pytest.raises(DataError, match=r"2 text columns wanted .* found \['premise'\]"):
        hub_examples(dataset("rte"), table(premise=["a"], label=[0]), "hub", labelled=True)


def test_what_is_not_on_the_hub_or_cannot_be_reached_says_how_to_go_on() -> None:
    with pytest.raises(ConfigError, match=r"newsqa(.|\n)*data.root"):
        read_hub(dataset("newsqa"), "dev")
    nowhere = replace(dataset("sst2"), hub=Hub("road-ray/no-such-data-set"))
    with pytest.raises(DataError, match=r"no-such-data-set(.|\n)*fix: check the network"):
        read_hub(nowhere, "dev")
