"""Our side of a race: the loop that every recipe runs, with its journal, in a directory of its own
that goes with it.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from road_ray.models.config import Attention
from road_ray.objectives.base import Objective
from road_ray.training.checkpoint_directory import Checkpoints
from road_ray.training.config import OptimizerConfig, TrainingConfig
from road_ray.training.loop import Steps, train
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.run_context import Training
from road_ray.training.worker import Worker


def learn(
    objective: Objective,
    steps: Steps,
    config: TrainingConfig,
    *,
    peak_lr: float,
    worker: Worker | None = None,
    attention: Attention = "auto",
) -> None:
    """Until the steps say that it is over."""
    with tempfile.TemporaryDirectory() as place:
        training = replace(training_in(Path(place), config, peak_lr), attention=attention)
        train(objective, steps, training, worker or Worker.alone())


def training_in(place: Path, config: TrainingConfig, peak_lr: float) -> Training:
    """Everything that the loop needs besides objective and data."""
    return Training(
        config=config,
        optimizer=OptimizerConfig(peak_lr=peak_lr, warmup_steps=1, schedule="constant"),
        total_steps=1_000_000,
        seed=0,
        checkpoints=Checkpoints(place / "checkpoints"),
        journal=Journal(place, console="quiet"),
        identity={},
    )
