"""What a training is given besides its objective and data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from road_ray.training.checkpoint.checkpoint import Checkpoints
from road_ray.training.config import OptimizerConfig, TrainingConfig
from road_ray.training.monitoring.journal import Journal


@dataclass(frozen=True)
class Training:
    """Everything the loop needs besides objective and data."""

    config: TrainingConfig
    optimizer: OptimizerConfig
    total_steps: int
    seed: int
    checkpoints: Checkpoints
    journal: Journal
    identity: Mapping[str, str]  # what a resumed run must share: data, tokenizer, teachers
    phase_starts: tuple[int, ...] = (0,)  # the steps that begin with longer rows; a plan asks each
    evaluate: Callable[[], Mapping[str, float]] | None = None
    record: Mapping[str, Any] = field(default_factory=dict)  # in every checkpoint, not compared
    # The keys that decide what comes out: with other ones a mirror's copy is of another run.
    configuration: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: Any = None  # kept beside the model of every checkpoint: any stage starts from one
