"""A student and the answers of its teachers: live, once, killed, damaged, of other teachers."""

from functools import partial
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close

import road_ray as rr
from road_ray.models.precision import compile_for_all_shapes
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.runs import weights

STEPS = 14  # an epoch is 10: every row is asked for, some twice


@pytest.fixture
def student(student, tmp_path):
    """``student(name, **changes)``: a run of more than an epoch with the tables of this test."""
    store = str(tmp_path / "store")
    return partial(student, **{"training.steps": STEPS, "distillation.store": store})


def events(run: rr.Run) -> dict[str, dict]:
    return {event["kind"]: event for event in read_rows(run.directory / "events.jsonl")}


def tables(store: Path) -> list[Path]:
    return sorted(store.glob("*/table-*"))


def test_the_first_and_every_later_run_are_bit_equal_and_these_start_no_teacher(
    student, tmp_path, loaded
):
    cold = student("cold")
    assert loaded == [3]
    assert len(tables(tmp_path / "store")) == 3
    warm = student("warm")
    assert weights(warm) == weights(cold)
    assert list(events(warm)["teachers_proven"]["difference"]) == ["its table"]
    hot = student("hot", temperature=4.0, **{"distillation.check_parity": False})
    assert weights(hot) != weights(cold)
    assert "teachers_proven" not in events(hot)
    assert loaded == [3]
    once = student("once", **{"distillation.store": None, "distillation.answers": "once"})
    assert weights(once) == weights(cold)  # auto: once, because a store is given
    assert len(tables(once.directory / "answers")) == 3


def test_compiled_teachers_teach_the_same(student, monkeypatch):
    counter = CompileCounter()
    monkeypatch.setattr(
        "road_ray.distillation.teacher.compile_for_all_shapes",
        partial(compile_for_all_shapes, backend=counter),
    )
    without = {"distillation.store": None}
    eager = student("eager", **without)
    assert not counter.frame_count
    compiled = student("compiled", **without, **{"distillation.torch_compile": True})
    assert counter.frame_count == 1  # three teachers of one architecture share the graph
    (drift,) = events(compiled)["teachers_proven"]["difference"].values()
    assert drift < 1e-5
    ours, theirs = (load_file(run.hf_dir / "model.safetensors") for run in (compiled, eager))
    assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
