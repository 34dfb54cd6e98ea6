"""What a training is told: its settings, and everything else besides objective and data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from road_ray.config import Config
from road_ray.models.precision import Precision
from road_ray.training.checkpoint.checkpoint import Checkpoints
from road_ray.training.checkpoint.remote_copy import check_address
from road_ray.training.monitoring.journal import Journal
from road_ray.training.optimizer import OptimizerConfig

OnSpike = Literal["warn", "skip", "stop"]


class EarlyStoppingConfig(Config):
    """When a training ends before its last step."""

    patience: int | None = Field(None, ge=1)
    """Evaluations in a row without a better figure after which the training ends, with the weights
    of the best one. None: train to the last step and keep its weights."""
    metric: str | None = None
    """The figure that is compared, such as ``eval/mrpc/f1``; larger is better. None: the mean of
    the figures that papers print.
    """


class TrainingConfig(Config):
    """How long to train, how often to look, what to keep."""

    steps: int | None = Field(None, ge=1)  # updates; None: as many as data.epochs make
    passes: int = Field(1, ge=1)  # batches a step, their gradients averaged
    precision: Precision = "auto"  # auto: bf16 autocast where the device gains from it
    # Layers run again in the backward pass instead of keeping what they made: less memory, a third
    # more time, the same gradients.
    activation_checkpointing: bool = False
    # For a GPU: on a CPU it took three minutes and made steps slower. What cannot be
    # compiled runs as it is.
    torch_compile: bool = False
    # For models that one device cannot hold: parameters, gradients and moments lie over the workers
    # in parts (FSDP2), for half as much traffic again. False: every worker has them whole (DDP).
    fsdp: bool = False
    log_every_steps: int = Field(50, ge=1)
    evaluate_every_steps: int | None = Field(None, ge=1)  # None: at the end only
    early_stopping: EarlyStoppingConfig = EarlyStoppingConfig()
    save_every_steps: int = Field(1000, ge=1)
    keep_checkpoints: int = Field(2, ge=1)
    # A loss over twice the largest of the last 50 steps: told, not learnt from, or the end.
    on_spike: OnSpike = "warn"
    # Where committed checkpoints are copied to, and come from when the run directory has none:
    # s3://bucket/run, gs://..., a path. Credentials belong into the environment. One place a run:
    # runs inside another have theirs below, under their directories' names.
    mirror: Annotated[str, AfterValidator(check_address)] | None = None


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
