"""A trial runs the verb's recipe once per seed and reports the mean."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from road_ray.config import load
from road_ray.errors import ConfigError
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.sweep.trial_runs import Trial, parameters

METRIC = "eval/sst2/accuracy"
SPACE = {"optimizer.peak_lr": {"loguniform": [1e-4, 1e-2]}}


def sweep(overrides, **more):
    base = {"verb": "finetune", "metric": METRIC, "space": SPACE, "name": "s"}
    return load(SweepConfig, base=base, overrides={"overrides": overrides} | more)


def test_seeds_differ_and_their_mean_is_judged(sentiment, tmp_path, monkeypatch):
    reports = []
    overrides = sentiment | {"training.evaluate_every_steps": 2, "data.max_judged_rows": 20}
    trial = Trial(sweep(overrides, seeds=2))
    outcome = trial(tmp_path, {"optimizer.peak_lr": 1e-3}, reports.append)
    assert [(report.step, round(report.percent)) for report in reports] == [(2, 33), (4, 67)]
    assert outcome.values == [outcome.figures[METRIC]]
    assert outcome.deviation[0] is not None
    assert outcome.figures["cost/parameters"] > 1000
    assert outcome.figures["cost/seconds"] > 0
    assert {path.name for path in tmp_path.iterdir()} == {"seed-0", "seed-1"}
    written = (tmp_path / "seed-1" / "config.resolved.yaml").read_text()
    assert "seed: 1" in written
    assert "peak_lr: 0.001" in written


def test_going_on_costs_nothing_where_all_is_done(sentiment, tmp_path, recipe):
    run = SimpleNamespace(metrics={METRIC: 50.0}, hf_dir=tmp_path)
    recipe(lambda config, context: run)
    outcome = Trial(sweep(sentiment))(tmp_path, {"optimizer.peak_lr": 1e-3}, lambda report: None)
    assert outcome.values == [50.0]
    assert outcome.deviation == [None]


def test_a_figure_that_is_no_number_stays_none(sentiment, tmp_path, recipe):
    recipe(lambda config, context: SimpleNamespace(metrics={METRIC: None}, hf_dir=tmp_path))
    outcome = Trial(sweep(sentiment))(tmp_path, {"optimizer.peak_lr": 1e-3}, lambda report: None)
    assert math.isnan(outcome.values[0])


def test_a_figure_that_did_not_come_is_told(sentiment, tmp_path, recipe):
    recipe(lambda config, context: SimpleNamespace(metrics={"eval/sst2/f1": 1.0}, hf_dir=tmp_path))
    with pytest.raises(ConfigError, match="eval/sst2/f1"):
        Trial(sweep(sentiment))(tmp_path, {"optimizer.peak_lr": 1e-3}, lambda report: None)


def test_teachers_cost_their_time(tmp_path, recipe, monkeypatch):
    recipe(lambda config, context: SimpleNamespace(metrics={METRIC: 1.0}, hf_dir=tmp_path))
    clock = iter(range(100))
    monkeypatch.setattr(
        "road_ray.recipes.sweep.trial_runs.time.monotonic", lambda: float(next(clock))
    )
    trial = Trial(sweep({"distillation.num_teachers": 5}, verb="distill"))
    outcome = trial(tmp_path, {"optimizer.peak_lr": 1e-3}, lambda report: None)
    assert outcome.teacher_seconds == 5.0


def test_parameters_are_read_from_the_headers(pretrained, tmp_path):
    import torch
    from safetensors.torch import load_file

    weights = load_file(pretrained.hf_dir / "model.safetensors")
    assert parameters(pretrained.hf_dir) == sum(torch.numel(weight) for weight in weights.values())
    assert parameters(tmp_path) == 0
