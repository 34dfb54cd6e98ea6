"""``--dry-run`` of a comparison: exact counts, times of this machine, nothing left behind."""

from __future__ import annotations

import json
import shutil

import pytest

import road_ray as rr
from road_ray.recipes.comparison.finetuning_estimate import estimate_comparison
from road_ray.recipes.comparison.pretraining_comparison import plan
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.verbs import configure


@pytest.fixture
def given(tiny):
    sizes = {"data.max_rows": 40, "data.max_unlabelled_rows": 20, "data.epochs": 1.0}
    overrides = tiny("low_resource", **sizes, arms=["mean"])
    del overrides["training.steps"]
    return overrides


def estimated(overrides):
    return estimate_comparison(configure("reproduce", overrides=overrides))


def test_counts_are_those_of_the_runs_and_nothing_is_left(given, tmp_path):
    result = estimated(given)
    assert not (tmp_path / "run").exists()
    lines = {(row["arm"], row["seed"]): row for row in result["rows"]}
    assert list(lines)[:2] == [("teachers-sst2", 1000), ("answers of teachers-sst2", None)]
    assert result["runs"] == 2 + 3 * 2
    assert lines["teachers-sst2", 1000]["steps"] == 3 * 5  # 40 rows in batches of 8
    assert lines["none", 0]["steps"] == 5
    assert lines["none_longer", 1]["steps"] == lines["mean", 0]["steps"] == 8
    assert all(row["seconds"] > 0 for row in result["rows"])
    assert result["hours"] > 0
    assert result["core_hours"] == pytest.approx(
        sum(r["core_seconds"] for r in result["rows"]) / 3600
    )
    run = rr.reproduce(overrides=given)
    for arm, seed in (("none", 0), ("mean", 1)):
        rows = read_rows(run.directory / arm / f"seed-{seed}" / "student" / "metrics.jsonl")
        steps = [row for row in rows if "time/step_seconds" in row]
        assert steps[-1]["step"] == lines[arm, seed]["steps"]
    again = estimated(given)
    assert (again["runs"], again["core_hours"]) == (0, 0.0)


def test_a_mirror_stays_as_it_is(given, tmp_path):
    estimated(given | {"training.mirror": str(tmp_path / "mirror")})
    assert not (tmp_path / "mirror").exists()


def test_the_command_lists_arms_and_seeds(given, road, flags):
    del given["comparison"]
    result = road("reproduce", "low_resource", *flags(given), "--dry-run")
    assert result.code == 0
    assert "none_longer" in result.out
    assert "core-hours" in result.out
    result = road("plan", "reproduce", "low_resource", *flags(given), "--json")
    assert json.loads(result.out)["comparison"] == "low_resource"


@pytest.mark.parametrize("comparison", ["algorithms", "successors"])
def test_every_arm_of_a_comparison_of_pre_training_is_estimated(
    small, road, flags, tmp_path, comparison
):
    settings = small | {"comparison": comparison, "num_seeds": 2}
    planned = plan(configure("reproduce", overrides=settings))
    del settings["comparison"]
    result = road("reproduce", comparison, *flags(settings), "--dry-run", "--json")
    assert result.code == 0, result.err
    assert not (tmp_path / "run").exists()
    estimate = json.loads(result.out)
    assert [(r["arm"], r["seed"]) for r in estimate["rows"]] == [
        (arm.run_dir.parent.name, arm.seed) for arm in planned
    ]
    for row, arm in zip(estimate["rows"], planned, strict=True):
        probed = len(arm.probes) * arm.probes[0].training.steps
        assert row["steps"] == sum(stage.training.steps for stage in arm.stages) + probed
        assert row["tokens"] > 0
        assert row["seconds"] > 0
    assert estimate["runs"] == len(planned)
    assert estimate["hours"] == pytest.approx(sum(r["seconds"] for r in estimate["rows"]) / 3600)


def test_finished_arms_of_a_comparison_of_pre_training_are_left_out(small, tmp_path, road, flags):
    rr.reproduce(overrides=small)
    (tmp_path / "run" / "metrics.json").unlink()
    shutil.rmtree(tmp_path / "run" / "electra" / "seed-0")
    settings = {key: value for key, value in small.items() if key != "comparison"}
    result = road("reproduce", "algorithms", *flags(settings), "--dry-run")
    assert result.code == 0
    assert "1 of these are left to run" in result.out
    assert result.out.count("finished") == 2
