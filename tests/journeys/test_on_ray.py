"""The journeys on Ray give what they give in one process, also when a teacher is killed."""

import os
import signal

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close

import road_ray as rr
from road_ray.training.monitoring.metrics_journal import read_rows

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("cluster")]

FLOAT16 = {"rtol": 5e-3, "atol": 5e-4}  # what the teachers' rounding makes of six large updates
NOISE = {"rtol": 1e-3, "atol": 2e-5}
RIGHT = [f"teachers/right_{n}" for n in range(4)]  # rows that so many of three teachers know


@pytest.fixture(scope="module")
def pool(teachers):
    """Three teachers in actors."""
    directories = [teachers.directory / f"teacher-{n}" for n in range(3)]
    with rr.Ensemble(directories, task="sst2", num_cpus=0.3, start_timeout_seconds=280) as ensemble:
        yield ensemble


@pytest.fixture(scope="module")
def settings(sentiment):
    return sentiment | {"data.batch_size": 8, "training.steps": 8, "optimizer.peak_lr": 3e-3}


def compare(one: rr.Run, other: rr.Run, *, rtol: float, atol: float) -> None:
    ours, theirs = (load_file(run.hf_dir / "model.safetensors") for run in (one, other))
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert_close(theirs[name], tensor, rtol=rtol, atol=atol, msg=lambda m, n=name: f"{n}: {m}")


@pytest.fixture(scope="module")
def by_actors(settings, pool, tmp_path_factory):
    """The student of teachers in actors."""
    place = tmp_path_factory.mktemp("runs") / "taught"
    return rr.distill(overrides=settings, teachers=pool, run_dir=place)


def test_a_killed_teacher_costs_time_and_changes_nothing(
    by_actors, settings, pool, tmp_path, monkeypatch
):
    members, killed = pool.inner, []
    before = members.health()
    submit = type(members).submit

    def submit_and_kill(self, batch):
        request = submit(self, batch)
        journal = tmp_path / "metrics.jsonl"
        if not killed and journal.is_file() and len(read_rows(journal)) >= 3:
            killed.append(before[1])
            os.kill(before[1], signal.SIGKILL)
        return request

    monkeypatch.setattr(type(members), "submit", submit_and_kill)
    run = rr.distill(overrides=settings, teachers=pool, run_dir=tmp_path)
    after = members.health()
    assert killed == [before[1]], "the kill did not fire"
    assert after[1] != before[1]
    assert (after[0], after[2]) == (before[0], before[2])
    compare(run, by_actors, rtol=0, atol=0)


def test_two_workers_learn_as_one_process_does(by_actors, settings, pool, tmp_path):
    run = rr.distill(overrides=settings, teachers=pool, workers=2, run_dir=tmp_path)
    compare(run, by_actors, **NOISE)
    assert run.metrics.keys() == by_actors.metrics.keys()
    rows = [r for r in read_rows(tmp_path / "metrics.jsonl") if "train/sst2" in r]
    rest = [r for r in read_rows(by_actors.directory / "metrics.jsonl") if "train/sst2" in r]
    for row, other in zip(rows, rest, strict=True):
        assert {n: row[n] for n in RIGHT} == {n: other[n] for n in RIGHT}
        assert row["train/sst2"] == pytest.approx(other["train/sst2"], rel=1e-3)


def test_a_mixture_of_heads_is_the_same_on_two_workers_that_hold_half_each(mix, tmp_path):
    mix = mix | {"data.batch_size": 5, "mixing.passes": 3, "optimizer.peak_lr": 3e-3}
    first = rr.multitask(overrides=mix, run_dir=tmp_path / "one")
    halves = mix | {"training.fsdp": True}
    two = rr.multitask(overrides=halves, run_dir=tmp_path / "two", workers=2)
    compare(two, first, **NOISE)
    # Both evaluated a share of each data set, with weights that one process has too.
    one_set = {"init": str(two.directory), "data.datasets": ["squad_v2"]}
    alone = rr.evaluate(overrides=one_set, run_dir=tmp_path / "alone").metrics
    shared = {n: x for n, x in two.metrics.items() if n.startswith("eval/squad_v2/")}
    assert shared
    assert {name: alone[name] for name in shared} == shared
    names = [set(row) for row in read_rows(tmp_path / "two" / "metrics.jsonl")][:4]
    heads = [
        {n for n in row if n in ("train/sst2", "train/squad_v2", "train/mnli")} for row in names
    ]
    assert any(len(drawn) > 1 for drawn in heads), "no step mixed heads"


def test_thirty_steps_with_answers_live_and_once_give_one_student(settings, teachers, tmp_path):
    """In fp32, actors send and tables keep fp16, so these two differ by rounding only where a batch
    of other rows sums in another order; teachers in this process are not rounded.
    """
    exact = {"training.steps": 30, "distillation.precision": "fp32", "training.precision": "fp32"}
    actors = {"distillation.host": "actors", "distillation.resources.CPU": 0.3}
    here = {"distillation.host": "process"}
    listed, runs = teachers.directory / "teachers.json", {}
    for answers in ("live", "once"):
        for host, places in (("actors", actors), ("here", here)):
            name = f"{answers} {host}"
            chosen = settings | exact | places | {"distillation.answers": answers}
            runs[name] = rr.distill(overrides=chosen, teachers=listed, run_dir=tmp_path / name)
    compare(runs["once actors"], runs["once here"], rtol=0, atol=0)
    compare(runs["live actors"], runs["once here"], **FLOAT16)
    compare(runs["live here"], runs["once here"], **FLOAT16)
    rows, here = (
        read_rows(runs[n].directory / "metrics.jsonl") for n in ("live actors", "live here")
    )
    assert all(row["time/teacher_wait_seconds"] >= 0 for row in rows if "train/sst2" in row)
    assert [r.get(n) for r in rows for n in RIGHT] == [r.get(n) for r in here for n in RIGHT]
