"""The examples of the documentation run unchanged."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.guide
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    """Return a function that loads an example by name and returns its ``main``."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return lambda name: runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]


def test_custom_loop_example_trains_and_fills_the_store(example, tmp_path):
    losses = example("own_loop")(tmp_path)
    assert losses[-1] < 0.8 * losses[0]
    assert len(list((tmp_path / "store").iterdir())) == 3


def test_hf_trainer_example_trains_and_fills_the_store(example, tmp_path):
    pytest.importorskip("accelerate")
    metrics = example("hf_trainer")(tmp_path)
    assert metrics["eval_accuracy"] > 0.9
    assert len(list((tmp_path / "store").glob("*/table-*"))) == 3
