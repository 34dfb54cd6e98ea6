"""A student before the store of its teachers: cold, warm, killed, damaged, with other teachers."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close

import road_ray as rr
from road_ray.distillation.logit_store.logit_shards import read_shard, write_shard
from road_ray.errors import CheckpointError
from road_ray.models.performance import int8_linear
from road_ray.models.performance.compilation import compile_for_all_shapes
from road_ray.training.monitoring.metrics_journal import read_rows

STEPS = 14  # an epoch is 10: every row is asked for, some twice


@pytest.fixture
def student(sentiment, teachers, tmp_path):
    """``student(name, **changes)``: a run of more than an epoch with the store of this test."""

    def run(name: str, **changes: object) -> rr.Run:
        given = {
            "teachers": teachers.directory / "teachers.json",
            "host": "process",
            "seed": 7,
            "training.steps": STEPS,
            "distillation.store": str(tmp_path / "store"),
        }
        settings = {key: value for key, value in (given | changes).items() if "." not in key}
        dotted = {key: value for key, value in (given | changes).items() if "." in key}
        return rr.distill(overrides=sentiment | dotted, run_dir=tmp_path / name, **settings)

    return run


def weights(run: rr.Run) -> bytes:
    return (run.hf_dir / "model.safetensors").read_bytes()


def events(run: rr.Run) -> dict[str, dict]:
    return {event["kind"]: event for event in read_rows(run.directory / "events.jsonl")}


def shards(store: Path) -> list[Path]:
    return sorted(store.glob("*/shard-*.arrow"))


def test_cold_and_warm_runs_are_bit_equal_and_the_warm_one_starts_no_teacher(student, tmp_path):
    cold = student("cold")
    assert {"teachers_started", "store_complete", "teachers_proven"} <= set(events(cold))
    assert events(cold)["store_complete"]["rows"] > 100
    assert len(list((tmp_path / "store").iterdir())) == 3
    warm = student("warm")
    assert weights(warm) == weights(cold)
    assert "teachers_started" not in events(warm)
    assert list(events(warm)["teachers_proven"]["difference"]) == ["the store"]
    assert weights(student("hot", temperature=4.0)) != weights(cold)
    assert "teachers_started" not in events(student("hot", temperature=4.0))


@pytest.mark.parametrize("store", [True, False])
def test_teachers_in_int8_tell_their_drift_and_have_a_store_of_their_own(
    student, tmp_path, monkeypatch, store
):
    monkeypatch.setattr(int8_linear, "_LEAST_WIDTH", 16)  # the teachers are narrow
    exact = student("exact")
    changes = {} if store else {"distillation.store": None}
    run = student("rounded", **changes, **{"distillation.precision": "int8"})
    proven = events(run)["teachers_proven"]
    assert proven["precision"] == "int8"
    assert all(0 < drift < 0.2 for drift in proven["difference"].values())
    assert weights(run) != weights(exact)
    assert len(list((tmp_path / "store").iterdir())) == (6 if store else 3)


def test_compiled_teachers_teach_the_same(student, monkeypatch):
    counter = CompileCounter()
    monkeypatch.setattr(
        "road_ray.distillation.ensemble.teacher.compile_for_all_shapes",
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


def distil_until_killed(given):
    from road_ray.distillation.logit_store import logit_shards

    commits = []

    def fault(what, staged):
        commits.append(what)
        if commits.count("store") == 5:  # of three teachers' second flush the second
            os.truncate(staged, 100)
            os.kill(os.getpid(), signal.SIGKILL)

    logit_shards._fault = fault
    rr.distill(**given)


def test_a_driver_killed_while_the_store_is_written_ends_as_if_nothing_had_been(
    student, sentiment, teachers, tmp_path
):
    whole = student("whole", **{"distillation.store": str(tmp_path / "other")})
    saving = {"training.steps": STEPS, "training.save_every_steps": 4}
    saving |= {"distillation.store": str(tmp_path / "store")}
    given = {
        "overrides": sentiment | saving,
        "run_dir": str(tmp_path / "killed"),
        "teachers": str(teachers.directory / "teachers.json"),
        "host": "process",
        "seed": 7,
    }
    context = multiprocessing.get_context("fork")  # a fresh interpreter would import for seconds
    driver = context.Process(target=distil_until_killed, args=(given,), daemon=True)
    driver.start()
    driver.join(240)
    assert driver.exitcode == -signal.SIGKILL
    assert len(shards(tmp_path / "store")) == 4
    assert len(list((tmp_path / "store").glob("*/.staged-*"))) == 1
    # Checkpoints are written beside the training: the kill may come before the first is there.
    there = any((tmp_path / "killed" / "checkpoints").glob("step-*"))
    resumed = student("killed", **{"training.save_every_steps": 4})
    assert ("resumed" in events(resumed)) == there
    assert weights(resumed) == weights(whole)
    assert list((tmp_path / "store").glob("*/.staged-*")) == []


def test_a_garbled_shard_is_put_aside_and_asked_again(student, tmp_path):
    cold = student("cold")
    victim = shards(tmp_path / "store")[0]
    content = victim.read_bytes()
    victim.write_bytes(content[:200] + b"garbled" + content[207:])
    again = student("again")
    assert events(again)["teachers_started"]["teachers"] in ([0], [1], [2])
    assert len(list((tmp_path / "store").glob("*/*.damaged"))) == 1
    assert again.metrics["eval/sst2/accuracy"] == pytest.approx(cold.metrics["eval/sst2/accuracy"])


def test_a_store_that_says_something_else_stops_the_run_before_the_first_step(student, tmp_path):
    student("cold")
    victim = shards(tmp_path / "store")[0]
    shard = read_shard(victim)
    values = np.array(shard.values[::-1])
    write_shard(victim.parent, np.array(shard.keys), np.array(shard.counts), values)
    victim.unlink()
    with pytest.raises(CheckpointError, match=r"(?s)teacher \d .*the store.*differ"):
        student("again")
    assert not (tmp_path / "again" / "metrics.jsonl").exists()
    assert student("trusting", **{"distillation.check_parity": False})


def test_a_store_of_other_runs_serves_a_subset_in_another_order(student, teachers):
    student("cold")
    directories = [teachers.directory / f"teacher-{number}" for number in (2, 0)]
    pair = student("pair", teachers=directories)
    assert "teachers_started" not in events(pair)


def test_every_checkpoint_names_the_teachers_and_other_ones_must_be_asked_for(
    student, teachers, tmp_path
):
    run = student("run", **{"training.save_every_steps": 4, "training.keep_checkpoints_at_end": 2})
    state = json.loads(next(run.directory.glob("checkpoints/*/state.json")).read_text())
    values = state["record"]["teachers"]
    assert [len(value["weights_sha256"]) for value in values] == [64] * 3
    assert all("eval/sst2/accuracy" in value["metrics"] for value in values)
    assert all(value["init"] for value in values)
    whole = weights(run)

    (run.directory / "metrics.json").unlink()
    shutil.rmtree(max((run.directory / "checkpoints").glob("step-*")))
    turned = [teachers.directory / f"teacher-{number}" for number in (2, 1, 0)]
    with pytest.raises(rr.errors.RoadError, match="teachers"):
        student("run", teachers=turned, **{"training.save_every_steps": 4})
    allowed = {"training.save_every_steps": 4, "distillation.allow_other_teachers": True}
    other = student("run", teachers=turned, **allowed)
    assert "resumed" in events(other)
    record = json.loads((run.directory / "teachers.json").read_text())
    assert len(record["before"]) == 1
    assert record["before"][0]["teachers"] == values
    assert weights(other) != b"" != whole
