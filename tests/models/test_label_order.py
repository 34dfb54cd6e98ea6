"""Labels of a stored head are matched by name, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from road_ray.data.catalog import task
from road_ray.data.task_and_dataset import Classify, Task
from road_ray.errors import CheckpointError
from road_ray.models.label_order import label_order

NLI = task("nli")


def order(*names, of=NLI, label_map=None):
    return label_order(Path("model"), dict(enumerate(names)), of, label_map)


def test_label_order_finds_labels_by_name_whatever_their_order_case_and_spaces():
    assert order("contradiction", "entailment", "neutral") is None
    assert order("ENTAILMENT ", "Neutral", " contradiction") == (2, 0, 1)
    assert order("not-entailment", "entailment", of=task("rte")) == (1, 0)
    assert order("start", "end", of=task("mrc")) is None


def test_label_order_tells_labels_apart_that_differ_in_case_alone():
    cased = Task("x", Classify(("A", "a", "b")))
    assert order("a", "b", "A", of=cased) == (2, 0, 1)
    with pytest.raises(CheckpointError, match="not those of task"):
        order("a ", "b", "A", of=cased)


def test_label_order_takes_a_map_for_one_model_before_the_map_for_all():
    names = ("LABEL_0", "LABEL_1", "LABEL_2")
    everywhere = dict(zip(names, ("contradiction", "entailment", "neutral"), strict=True))
    turned = dict(zip(names, ("neutral", "entailment", "contradiction"), strict=True))
    assert order(*names, label_map=everywhere | {"another": turned}) is None
    assert order(*names, label_map=everywhere | {"model": turned}) == (2, 1, 0)
    assert order(*names, label_map={"model": turned}) == (2, 1, 0)


@pytest.mark.parametrize(
    "labels",
    [
        ("LABEL_0", "LABEL_1", "LABEL_2"),
        ("entailment", "neutral"),
        ("entailment", "neutral", "contradiction", "contradiction"),
        ("entailment", "entailment", "neutral"),
        ("entailment", "neutral", "other"),
    ],
)
def test_label_order_refuses_other_names(labels):
    with pytest.raises(CheckpointError, match=r"config\.json: the labels of its head"):
        order(*labels)


def test_label_order_takes_the_map_of_a_name_on_the_hub():
    snapshot = Path("hub/models--org--nli-bert/snapshots/0a1b")
    turned = {"entailment": "contradiction", "contradiction": "entailment"}
    names = dict(enumerate(("entailment", "neutral", "contradiction")))
    assert label_order(snapshot, names, NLI, {"org/nli-bert": turned}) == (0, 2, 1)
    assert label_order(snapshot, names, NLI, {"org/nli": turned}) == (2, 0, 1)
