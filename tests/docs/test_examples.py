"""The examples of the documentation run as they stand."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture
def example(monkeypatch):
    """``example(name)``: its function ``main``."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return lambda name: runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]


def test_a_loop_of_ones_own(example, tmp_path):
    losses = example("own_loop")(tmp_path)
    assert losses[-1] < 0.8 * losses[0]
    assert len(list((tmp_path / "store").iterdir())) == 3


def test_the_trainer_of_hugging_face(example, tmp_path):
    pytest.importorskip("accelerate")
    figures = example("hf_trainer")(tmp_path)
    assert figures["eval_accuracy"] > 0.9
    assert len(list((tmp_path / "store").glob("*/shard-*"))) == 3
