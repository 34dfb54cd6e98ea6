"""``--dry-run`` of a comparison: exact counts, times of this machine, nothing left behind."""

import json

import pytest

import road_ray as rr
from road_ray.errors import CheckpointError
from road_ray.experiment.estimate import estimate
from road_ray.experiment.expand import Experiment
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.verbs import configure


@pytest.fixture
def given(tiny):
    sizes = {"data.max_rows": 40, "data.max_unlabelled_rows": 20, "data.epochs": 1.0}
    overrides = tiny("low_resource", **sizes, arms=["mean"])
    del overrides["training.steps"]
    return overrides


def estimated(overrides):
    return estimate(configure("reproduce", overrides=overrides))


def test_counts_are_those_of_the_runs_and_nothing_is_left(given, tmp_path):
    result = estimated(given | {"training.mirror": str(tmp_path / "mirror")})
    assert not {path.name for path in tmp_path.iterdir()} & {"run", "mirror"}
    lines = {(row["arm"], row["seed"]): row for row in result["rows"]}
    others = {("teachers-sst2", None)}
    arms = {(arm, seed) for arm in ("none", "none_longer", "mean") for seed in (0, 1)}
    assert {*lines} == others | arms
    assert result["runs"] == 1 + 3 * 2
    assert lines["teachers-sst2", None]["steps"] == 3 * 5  # 40 rows in batches of 8
    assert lines["none", 0]["steps"] == 5
    assert lines["none_longer", 1]["steps"] == lines["mean", 0]["steps"] == 8
    assert all(row["seconds"] > 0 for row in result["rows"])
    run = rr.reproduce(overrides=given)
    for arm, seed in (("none", 0), ("mean", 1)):
        rows = read_rows(run.directory / arm / f"seed-{seed}" / "student" / "metrics.jsonl")
        steps = [row for row in rows if "time/step_seconds" in row]
        assert steps[-1]["step"] == lines[arm, seed]["steps"]
    again = estimated(given)
    assert (again["runs"], again["hours"]) == (0, 0.0)


def test_an_arm_that_cannot_run_is_named(given):
    with pytest.raises(CheckpointError, match=r"^none/seed-0/student: nowhere: no such"):
        estimated(given | {"experiment.arms.none.keys": {"init": "nowhere"}})


def test_every_arm_of_a_comparison_of_pre_training_is_estimated(small, road, flags, tmp_path):
    settings = small | {"num_seeds": 2}
    planned = Experiment(configure("reproduce", overrides=settings))
    name = settings.pop("comparison")
    result = road("reproduce", name, *flags(settings), "--dry-run", "--json").good()
    assert not (tmp_path / "run").exists()
    found = json.loads(result.out)
    pairs = [(arm, seed) for arm in planned.arms for seed in (0, 1)]
    assert [(row["arm"], row["seed"]) for row in found["rows"]] == pairs
    for row, (arm, seed) in zip(found["rows"], pairs, strict=True):
        jobs = planned.of_arm(arm, seed)
        assert row["steps"] == sum(job.config.training.steps for job in jobs)
        assert row["seconds"] > 0
    assert found["runs"] == len(pairs)
    assert found["hours"] == pytest.approx(sum(r["seconds"] for r in found["rows"]) / 3600)


def test_arms_side_by_side_are_counted_as_such(given):
    def hours(side):
        found = estimated(given | {"max_concurrent": side})
        return found["hours"], sum(row["seconds"] for row in found["rows"]) / 3600

    alone, total = hours(0)
    assert alone == pytest.approx(total)
    beside, total = hours(2)
    assert 0.49 * total < beside < 0.8 * total
