"""``road sweep``: a table for people, JSON for scripts, mistakes before anything starts."""

from __future__ import annotations

import json

import pytest

from road_ray.distributed.tune import trial_record

FILE = """\
verb: pretrain
preset: tiny_mlm
metric: train/mlm
mode: min
trials: 2
space: {optimizer.peak_lr: {loguniform: [1.0e-4, 1.0e-2]}}
"""


@pytest.fixture
def done(tmp_path):
    """A sweep that an earlier start has finished."""
    (tmp_path / "mine.yaml").write_text(FILE)
    directory = tmp_path / "sweep"
    for number, value in enumerate((0.5, 0.25)):
        params = {"optimizer.peak_lr": 1e-3 * (number + 1)}
        record = trial_record.Record(number, params, "complete", (value,), figures={"a": 1.0})
        trial_record.write(directory, record)
    return tmp_path / "mine.yaml", directory


def test_people_see_the_trials_and_the_best(road, done):
    file, directory = done
    said = road("sweep", file, "--run-dir", directory)
    assert said.code == 0
    assert "best: trial 1: train/mlm 0.25  optimizer.peak_lr=0.002" in said.out
    assert f"model: {directory}/trials/0001/seed-0" in said.out
    assert f"report: {directory}/report.html" in said.out
    assert "optimizer.peak_lr" in (directory / "report.html").read_text()


def test_a_dry_run_plans_one_trial_and_starts_none(road, tmp_path):
    (tmp_path / "mine.yaml").write_text(FILE)
    place = tmp_path / "sweep"
    tiny = ["data.root=miniature", "encoder.layers=1", f"data.shards={tmp_path / 'shards'}"]
    said = road("sweep", tmp_path / "mine.yaml", "--run-dir", place, "--dry-run", *tiny)
    assert said.code == 0, said.err
    assert said.out.startswith("mine: 2 trials of 1 x pretrain, which draw optimizer.peak_lr;")
    assert "s a step measured here" in said.out
    assert not place.exists()


def test_scripts_get_json(road, done):
    file, directory = done
    said = road("sweep", file, "--run-dir", directory, "--json")
    told = json.loads(said.out)
    assert [trial["number"] for trial in told["trials"]] == [0, 1]
    assert told["best"][0]["values"] == [0.25]
    assert said.err == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["weighted"], "did you mean 'weighted_kd'"),
        (["finetune_glue", "trials=0"], "value >= 1"),
        (["finetune_glue", "metric=eval/sst2/acc"], "eval/sst2/accuracy"),
        ([], "weighted_kd"),
        (["trials=2"], "weighted_kd"),
    ],
)
def test_a_mistake_is_told_before_anything_starts(road, tmp_path, monkeypatch, arguments, told):
    monkeypatch.chdir(tmp_path)
    said = road("sweep", *arguments)
    assert said.code == 2
    assert told in said.err
    assert list(tmp_path.iterdir()) == []
