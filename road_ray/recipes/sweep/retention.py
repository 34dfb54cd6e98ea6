"""Retention of a sweep: figures, curves and predictions of all trials, models of the best only."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from road_ray.distributed.tune.trial_record import Record, trial_directory
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.sweep.result import best_of
from road_ray.recipes.sweep.stages import stage_directory

_LARGE = ("checkpoints", "hf")  # in a run directory


def remove_models(directory: Path, trials: Iterable[Record], config: SweepConfig) -> list[Record]:
    """Remove models and checkpoints of ended trials that are not among the best, unless ``keep:
    all``, and return the trials that keep theirs. A former best trial loses its model once another
    one is better.
    """
    known = list(trials)
    if config.keep == "all":
        return known
    best = {trial.number for trial in best_of(known, config.mode)}
    for trial in known:
        if trial.ended and trial.number not in best:
            place = trial_directory(directory, trial.number)
            for large in [path for name in _LARGE for path in place.glob(f"seed-*/**/{name}")]:
                shutil.rmtree(large, ignore_errors=True)
    return [trial for trial in known if not trial.ended or trial.number in best]


def model_of(directory: Path, trial: Record, config: SweepConfig) -> Path:
    """Return the run directory of a trial's last run, first seed."""
    first = trial_directory(directory, trial.number) / "seed-0"
    return stage_directory(config, first, len(config.stages) - 1)
