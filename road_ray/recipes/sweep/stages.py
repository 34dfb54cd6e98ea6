"""From drawn values to the configurations of a trial's runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from road_ray.config import Config, override
from road_ray.recipes.distillation.config import DistillConfig
from road_ray.recipes.resume_identity import mirrored_below
from road_ray.recipes.sweep.config import StageConfig, SweepConfig
from road_ray.training.config import TrainingConfig
from road_ray.verbs import configure

_ALL = 1_000_000
SECOND = "then."  # begins the keys of the second run
# Where and how a trial runs is the sweep's to say, so no space may hold these.
OWN = ("run_dir", "console", "seed", "address")


def base_config(stage: StageConfig) -> Config:
    """The configuration of a run before values are drawn."""
    return _base(stage.model_dump_json())


@cache
def _base(written: str) -> Config:
    stage = StageConfig.model_validate_json(written, extra="ignore")
    return configure(stage.verb, preset=stage.preset, overrides=stage.overrides)


def split_by_stage(changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of the first run and those of the second, each by its own dotted key."""
    first = {key: value for key, value in changes.items() if not key.startswith(SECOND)}
    second = {key.removeprefix(SECOND): value for key, value in changes.items() if key not in first}
    return first, second


def runs_of(
    sweep: SweepConfig, changes: Mapping[str, Any], directory: Path, number: int
) -> list[tuple[str, Config]]:
    """Verb and configuration of each run of one seed, the ``number``-th, of a trial."""
    place = directory / f"seed-{number}"
    runs: list[tuple[str, Config]] = []
    for stage, drawn in zip(sweep.stages, split_by_stage(changes), strict=False):
        found = base_config(stage)
        at = place if sweep.then is None else place / stage.verb
        own: dict[str, Any] = {"run_dir": at, "console": "quiet"}
        own["seed"] = getattr(found, "seed", 0) + number
        training: TrainingConfig = found.training  # type: ignore[attr-defined]
        # A trial's directory is trials/NNNN of the sweep.
        place_below = at.relative_to(directory.parents[1])
        own["training.mirror"] = mirrored_below(training, place_below).mirror
        if runs:
            own["init"] = runs[-1][1].run_dir  # type: ignore[attr-defined]
        if isinstance(found, DistillConfig) and _keeps(found):
            own["distillation.store"] = sweep.directory / "store"
        if sweep.scheduler == "pbt":  # any look's checkpoint may be what a child goes on from
            every: Any = found
            own["training.save_every_steps"] = every.training.evaluate_every_steps
            own["training.keep_checkpoints"] = _ALL
        if sweep.tracking != type(sweep.tracking)():
            own |= _tracking(sweep)
        runs.append((stage.verb, override(found, {**drawn, **own})))
    return runs


def _keeps(config: DistillConfig) -> bool:
    """Whether trials share a store of the sweep: teachers say the same in all of them."""
    settings = config.distillation
    return settings.store is None and settings.on_lost == "stop"


def _tracking(sweep: SweepConfig) -> dict[str, Any]:
    chosen = sweep.tracking
    return {
        "tracking.wandb_project": chosen.wandb_project,
        "tracking.wandb_mode": chosen.wandb_mode,
        "tracking.wandb_group": sweep.name,
        "tracking.mlflow_uri": chosen.mlflow_uri,
        "tracking.mlflow_experiment": sweep.name,
        "tracking.tensorboard": chosen.tensorboard,
    }
