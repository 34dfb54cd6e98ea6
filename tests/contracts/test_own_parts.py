"""What is chosen by name takes ``package.module:name`` of a user's, with the contract that
``road_ray.testing`` ships.
"""

import runpy
import sys

import numpy as np
import pytest
import torch
from torch import nn

from road_ray import testing
from road_ray.errors import ConfigError, DataError
from road_ray.objectives.pretraining.mlm import MaskedLanguageModel
from road_ray.objectives.pretraining.registry import OBJECTIVES
from road_ray.system.own_names import named_object
from road_ray.training.monitoring.trackers import Tracker
from tests.docs.blocks import ROOT

PARTS = ROOT / "examples" / "extension"


@pytest.fixture
def parts(monkeypatch):
    """The example package on the path, as if it were installed."""
    monkeypatch.syspath_prepend(PARTS)
    yield PARTS
    sys.modules.pop("my_road_parts", None)


def test_the_tests_of_the_example_package_pass(parts):
    tests = runpy.run_path(str(parts / "tests" / "test_my_road_parts.py"))
    called = [test() for name, test in tests.items() if name.startswith("test_")]
    assert len(called) == 3


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("acuracy", "did you mean 'accuracy'.*allowed: accuracy, or package.module:name"),
        ("no_such_package:x", "No module named.*tried: from no_such_package import x, in .* on "),
        ("own_parts:missing", "has no attribute 'missing'"),
        ("broken_part:x", "NameError"),
    ],
)
def test_a_name_that_leads_nowhere_is_told_with_what_was_tried(
    own, monkeypatch, tmp_path, name, problem
):
    (tmp_path / "broken_part.py").write_text("x = undefined\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    with pytest.raises(ConfigError, match=rf"(?s)some.key = {name}: .*{problem}") as told:
        named_object("some.key", name, {"accuracy": len}, "a thing of that kind")
    if ":" in name:
        assert "allowed: a thing of that kind" in str(told.value)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_shipped_objective_keeps_the_contract(name):
    options = {"teams": {"shared_layers": 1, "candidates": 3}, "mc_bert": {"candidates": 4}}
    testing.check_objective(name, **options.get(name, {}))


class Halved(MaskedLanguageModel):
    """Masked language modelling that divides by the number of rows: not a sum over them."""

    def forward(self, batch):
        losses = super().forward(batch)
        term = losses.terms["mlm"]
        losses.terms["mlm"] = type(term)(term.total / len(batch["input_ids"]), term.count)
        return losses


class Renamed(MaskedLanguageModel):
    metric_names = ("mlm",)


class Ignoring(MaskedLanguageModel):
    def counts(self, batch):
        return {name: count + 1 for name, count in super().counts(batch).items()}


@pytest.mark.parametrize(
    ("kind", "problem"),
    [(Halved, "not a sum over rows"), (Renamed, "metric_names are"), (Ignoring, "counts differ")],
)
def test_an_objective_that_breaks_the_contract_is_told(own, kind, problem):
    own(Kind=kind)
    with pytest.raises(AssertionError, match=problem):
        testing.check_objective("own_parts:Kind")


def test_an_objective_of_ones_own_is_checked_and_something_else_refused(own):
    own(Kind=type("Kind", (MaskedLanguageModel,), {}), Other=dict)
    testing.check_objective("own_parts:Kind", choose_fraction=0.3)
    with pytest.raises(ConfigError, match=r"objective.name = own_parts:Other.*is no objective"):
        testing.check_objective("own_parts:Other")


def sorting(gold, predicted):
    right = float((gold == predicted).all())
    predicted.sort()
    return right


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        (lambda gold, predicted: float(np.abs(gold - predicted).mean()), "larger must be better"),
        (lambda gold, predicted: float(gold[0] == predicted[0]), "the order of rows"),
        (lambda gold, predicted: np.ptp(gold) / np.ptp(gold), "nan"),
        (sorting, "changes its arguments|two calls differ"),
    ],
)
def test_a_metric_that_breaks_the_contract_is_told(own, metric, problem):
    own(metric=metric)
    with pytest.raises((AssertionError, ConfigError), match=problem), np.errstate(all="ignore"):
        testing.check_metric("own_parts:metric")


@pytest.mark.parametrize(
    ("reader", "error", "problem"),
    [
        (lambda path: iter(()), AssertionError, "no rows"),
        (lambda path: [("a", {"text": "x"}), ("a", {"text": "y"})], AssertionError, "one place"),
        (lambda path: [("a", {"body": "x"})], AssertionError, "a: has body"),
        (lambda path: [{"text": "x"}], DataError, "fails here or behind it"),
        (lambda path: [("line 3", {"text": "x"}), 7], DataError, "line 3: layout = own_parts"),
        (lambda: [], DataError, "positional argument"),
    ],
)
def test_a_reader_that_breaks_the_contract_is_told(own, tmp_path, reader, error, problem):
    own(reader=reader)
    with pytest.raises(error, match=problem):
        testing.check_reader("own_parts:reader", tmp_path / "file", ["text"])


def test_a_tracker_that_breaks_the_contract_is_told(own):
    def formats(run_dir, name, config):
        return Tracker(lambda step, row: [f"{value:.3f}" for value in row.values()])

    own(nothing=lambda run_dir, name, config: None, formats=formats)
    with pytest.raises(ConfigError, match=r"tracking.custom = own_parts:nothing: returns None"):
        testing.check_tracker("own_parts:nothing")
    with pytest.raises(TypeError):  # of a value that was not finite
        testing.check_tracker("own_parts:formats")


class Last(nn.Linear):
    """A head that reads the last position, padding or not."""

    def forward(self, states, mask):
        return super().forward(states[:, -1])


class Centred(nn.Linear):
    """A head that subtracts the mean of the batch."""

    def forward(self, states, mask):
        first = super().forward(states[:, 0])
        return first - first.mean(0) if len(first) > 1 else first


class Detached(nn.Linear):
    def forward(self, states, mask):
        return super().forward(states[:, 0].detach()) + 0 * states.sum((1, 2))[:, None]


class Unsaved(nn.Linear):
    def __init__(self, hidden_size, num_labels):
        super().__init__(hidden_size, num_labels)
        self.register_buffer("noise", torch.randn(num_labels), persistent=False)

    def forward(self, states, mask):
        return super().forward(states[:, 0]) + self.noise


class Tied(nn.Linear):
    def __init__(self, hidden_size, num_labels):
        super().__init__(hidden_size, num_labels)
        self.other = nn.Parameter(self.weight[0])

    def forward(self, states, mask):
        return super().forward(states[:, 0])


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Last, "padding, or another row"),
        (Centred, "padding, or another row"),
        (Detached, "no gradient"),
        (Unsaved, "one state_dict"),
    ],
)
def test_a_head_that_breaks_the_contract_is_told(own, kind, problem):
    own(Head=kind)
    with pytest.raises(AssertionError, match=problem):
        testing.check_head("own_parts:Head")


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (len, "is <built-in function len>"),
        (dict, "is <class 'dict'>"),
        (nn.Linear, r"\(64, 1\): TypeError"),  # forward takes no mask
        (type("Tokens", (nn.Linear,), {"forward": lambda self, x, mask: 0 * x}), r"\[2, 3, 64\]"),
        (Tied, "share memory"),
    ],
)
def test_what_is_no_head_is_refused(own, kind, problem):
    own(Head=kind)
    with pytest.raises(ConfigError, match=rf"(?s)head = own_parts:Head: .*{problem}.*check_head"):
        testing.check_head("own_parts:Head")
