"""Configurations of a trial's runs have the sampled values."""

from __future__ import annotations

from pathlib import Path

import pytest

from road_ray.recipes.sweep.config import StageConfig, SweepConfig
from road_ray.recipes.sweep.stages import runs_of

SPACE = {
    "objective.discriminator_weight": {"choice": [1, 50]},
    "then.data.batch_size": {"int": [8, 9]},
}


def test_the_second_run_starts_from_the_first_ones_model(tmp_path):
    sweep = SweepConfig(
        verb="pretrain",
        preset="tiny_electra",
        overrides={"seed": 5},
        then=StageConfig(verb="finetune", preset="sst2_small"),
        metric="eval/sst2/accuracy",
        space=SPACE,
    )
    changes = {"objective.discriminator_weight": 1, "then.data.batch_size": 9}
    (first, pretrain), (second, finetune) = runs_of(sweep, changes, tmp_path, 2)
    assert (first, second) == ("pretrain", "finetune")
    assert pretrain.objective.discriminator_weight == 1
    assert finetune.data.batch_size == 9
    assert pretrain.run_dir == tmp_path / "seed-2" / "pretrain"
    assert finetune.init == str(pretrain.run_dir)
    assert (pretrain.seed, finetune.seed) == (7, 2)
    assert pretrain.console == "quiet"


def test_two_runs_of_one_verb_have_two_directories(tmp_path):
    sweep = SweepConfig(
        verb="finetune",
        overrides={"data.dataset": "mnli"},
        then=StageConfig(verb="finetune", overrides={"data.dataset": "rte"}),
        metric="eval/rte/accuracy",
        space={"data.batch_size": {"int": [8, 9]}},
    )
    (_, first), (_, second) = runs_of(sweep, {"data.batch_size": 8}, tmp_path, 0)
    assert first.run_dir == tmp_path / "seed-0" / "finetune"
    assert second.run_dir == tmp_path / "seed-0" / "then-finetune"
    assert second.init == str(first.run_dir)


def test_a_single_run_lies_in_the_seeds_directory(tmp_path):
    sweep = SweepConfig(verb="finetune", metric="m", space={"data.batch_size": {"int": [8, 9]}})
    [(_, run)] = runs_of(sweep, {"data.batch_size": 8}, tmp_path, 0)
    assert run.run_dir == tmp_path / "seed-0"


def test_trackers_of_a_sweep_group_its_runs(tmp_path):
    config = {"verb": "finetune", "metric": "m", "space": {"data.batch_size": {"int": [8, 9]}}}
    tracking = {"wandb_project": "p", "tensorboard": True}
    sweep = SweepConfig(**config, name="mine", tracking=tracking)
    [(_, run)] = runs_of(sweep, {"data.batch_size": 8}, tmp_path, 0)
    assert (run.tracking.group, run.tracking.tensorboard) == ("mine", True)


@pytest.mark.parametrize(
    ("overrides", "store"),
    [
        ({}, "sweep/store"),
        ({"distillation.store": "mine"}, "mine"),
        ({"distillation.answers": "live"}, None),
    ],
)
def test_trials_share_what_teachers_said(tmp_path, overrides, store):
    sweep = SweepConfig(
        verb="distill",
        overrides=overrides,
        metric="m",
        space={"weighting.wrong": {"uniform": [0, 1]}},
        run_dir=Path("sweep"),
    )
    [(_, run)] = runs_of(sweep, {"weighting.wrong": 0.5}, tmp_path, 0)
    assert run.distillation.store == (Path(store) if store else None)
