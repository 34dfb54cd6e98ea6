"""Stages of a trial: the configurations of its runs from the sampled values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from road_ray.config import Config, override
from road_ray.distributed.tune.trial_record import Record, trial_directory
from road_ray.recipes.config import TrackingConfig
from road_ray.recipes.distillation.config import DistillConfig
from road_ray.recipes.run_directory.recorded_config import mirrored_below
from road_ray.recipes.sweep.config import StageConfig, SweepConfig
from road_ray.training.config import TrainingConfig
from road_ray.verbs import configure

SECOND = "then."  # prefix of the keys of the second run
# The sweep sets these keys of a trial, so they cannot be searched.
OWN = ("run_dir", "console", "seed", "address")


def base_config(stage: StageConfig) -> Config:
    """Return the configuration of a run before sampled values are applied."""
    return _base(stage.model_dump_json())


@cache
def _base(written: str) -> Config:
    stage = StageConfig.model_validate_json(written, extra="ignore")
    return configure(stage.verb, preset=stage.preset, overrides=stage.overrides)


def split_by_stage(changes: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Return the values of the first run and those of the second, by dotted key."""
    first = {key: value for key, value in changes.items() if not key.startswith(SECOND)}
    second = {key.removeprefix(SECOND): value for key, value in changes.items() if key not in first}
    return first, second


def stage_directory(sweep: SweepConfig, seed_directory: Path, number: int) -> Path:
    """Return the directory of the first (0) or second (1) run of a trial with one seed."""
    if sweep.then is None:
        return seed_directory
    first, second = (stage.verb for stage in sweep.stages)
    return seed_directory / (first, f"then-{second}" if second == first else second)[number]


def model_of(directory: Path, trial: Record, config: SweepConfig) -> Path:
    """Return the run directory of a trial's last run, first seed."""
    first = trial_directory(directory, trial.number) / "seed-0"
    return stage_directory(config, first, len(config.stages) - 1)


def runs_of(
    sweep: SweepConfig, changes: Mapping[str, object], directory: Path, number: int
) -> list[tuple[str, Config]]:
    """Return verb and configuration of each run of a trial's ``number``-th seed."""
    place = directory / f"seed-{number}"
    runs: list[tuple[str, Config]] = []
    for stage, drawn in zip(sweep.stages, split_by_stage(changes), strict=False):
        base = base_config(stage)
        at = stage_directory(sweep, place, len(runs))
        sweep_keys: dict[str, Any] = {"run_dir": at, "console": "quiet"}
        sweep_keys["seed"] = getattr(base, "seed", 0) + number
        training: TrainingConfig = base.training  # type: ignore[attr-defined]
        # A trial's directory is trials/NNNN of the sweep.
        place_below = at.relative_to(directory.parents[1])
        sweep_keys["training.mirror"] = mirrored_below(training, place_below).mirror
        if runs:
            sweep_keys["init"] = runs[-1][1].run_dir  # type: ignore[attr-defined]
        teaching = base.distillation if isinstance(base, DistillConfig) else None
        if teaching is not None and teaching.store is None and teaching.answers != "live":
            # The trials share tables of the sweep, and thus read the same answers.
            sweep_keys["distillation.store"] = sweep.directory / "store"
        if sweep.tracking != TrackingConfig():
            group = sweep.tracking.group or sweep.name
            sweep_keys["tracking"] = sweep.tracking.model_copy(update={"group": group})
        runs.append((stage.verb, override(base, {**drawn, **sweep_keys})))
    return runs
