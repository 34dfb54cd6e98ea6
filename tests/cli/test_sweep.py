"""``road sweep``: the best trial for people, JSON for scripts, mistakes before anything starts."""

import json

import pytest

from road_ray.distributed.tune.one_trial import Record
from road_ray.recipes.sweep.trials import load_sweep
from tests.sweeps import leave_trials

FILE = """\
verb: pretrain
preset: tiny_mlm
metric: train/mlm
mode: min
trials: 2
space: {optimizer.peak_lr: {loguniform: [1.0e-4, 1.0e-2]}}
"""


def test_people_see_the_trials_and_the_best_and_scripts_get_json(road, tmp_path):
    file, directory = tmp_path / "mine.yaml", tmp_path / "sweep"
    file.write_text(FILE)
    trials = [
        Record(0, {"optimizer.peak_lr": rate}, "complete", (value,), figures={"a": 1.0})
        for rate, value in ((0.001, 0.5), (0.002, 0.25))
    ]
    leave_trials(load_sweep(file, {"run_dir": str(directory)}), *trials)
    result = road("sweep", file, "--run-dir", directory).good()
    best, other = result.out.splitlines()[2:4]
    assert (best.split(), other.split()) == (["1", "0.25", "2.00e-03"], ["0", "0.50", "1.00e-03"])
    assert "best: trial 1: train/mlm 0.25  optimizer.peak_lr=0.002" in result.out
    assert f"model: {directory}/trials/0001/seed-0" in result.out
    assert f"report: {directory}/report.html" in result.out
    assert "optimizer.peak_lr" in (directory / "report.html").read_text()
    result = road("sweep", file, "--run-dir", directory, "--json")
    output = json.loads(result.out)
    assert [trial["number"] for trial in output["trials"]] == [0, 1]
    assert output["best"][0]["values"] == [0.25]
    assert result.err == ""


def test_a_dry_run_plans_one_trial_and_starts_none(road, tmp_path):
    (tmp_path / "mine.yaml").write_text(FILE)
    place = tmp_path / "sweep"
    tiny = ["data.root=miniature", "encoder.layers=1", f"data.shards={tmp_path / 'shards'}"]
    line = ("sweep", tmp_path / "mine.yaml", "--run-dir", place, "--dry-run", *tiny)
    result = road(*line).good()
    assert result.out.startswith("mine: 2 trials of 1 x pretrain, which draw optimizer.peak_lr;")
    assert "as measured here on three steps" in result.out
    assert "all trials  2 such runs: " in result.out
    assert "less, as asha stops some early" in result.out
    plan = json.loads(road(*line, "--json", "trials=12", "seeds=2", "max_concurrent=3").out)
    assert plan["sweep"]["runs"] == 24
    assert plan["sweep"]["hours"] == pytest.approx(8 * plan["hours"])
    assert not place.exists()
