"""Configuration of a training and of its optimizer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from road_ray.config import Config
from road_ray.models.config import Precision
from road_ray.training.checkpoint.remote_copy import check_address


class OptimizerConfig(Config):
    """AdamW and its schedule. Source of the defaults: google electra, model/optimization.py; Clark
    et al., table 6.
    """

    name: Literal["adamw", "lamb"] = "adamw"
    """Lamb: batches of thousands of rows."""
    peak_lr: float = Field(5e-4, gt=0, le=1)
    """ELECTRA-Small pre-training; fine-tuning 3e-4."""
    schedule: Literal["warmup_times_decay", "warmup_then_decay", "constant"] = "warmup_times_decay"
    warmup_fraction: float = Field(0.1, ge=0, le=1)
    """Of all steps; warmup_steps comes first."""
    warmup_steps: int | None = Field(None, ge=0)
    weight_decay: float = Field(0.01, ge=0, le=1)
    """Never on biases and LayerNorm; 0 in fine-tuning."""
    layer_decay: float = Field(1.0, gt=0, le=1)
    """In fine-tuning 0.8 for Small and Base, 0.9 for Large; in ROaD's multi-task stage 0.75."""
    layer_decay_mode: Literal["paper", "electra_code"] = "paper"
    """"paper": the top block gets layer_decay; "electra_code": its square, as the released code
    does (issue 51 there).
    """
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.999, ge=0, lt=1)
    epsilon: float = Field(1e-6, gt=0, lt=1)
    bias_correction: bool = False
    """ELECTRA has none."""
    max_grad_norm: float = Field(1.0, gt=0)

    def warmup(self, total_steps: int) -> int:
        """How many of the steps warm up."""
        given = self.warmup_steps
        return round(self.warmup_fraction * total_steps) if given is None else given


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

    steps: int | None = Field(None, ge=1)
    """Updates; None: as many as data.epochs make."""
    passes: int = Field(1, ge=1)
    """Batches a step, their gradients averaged."""
    precision: Precision = "auto"
    """Auto: bf16 autocast where the device gains from it."""
    activation_checkpointing: bool = False
    """Layers run again in the backward pass instead of keeping what they made: less memory, a third
    more time, the same gradients.
    """
    torch_compile: bool = False
    """For a GPU: on a CPU it took three minutes and made steps slower. What cannot be compiled runs
    as it is.
    """
    fsdp: bool = False
    """For models that one device cannot hold: parameters, gradients and moments lie over the
    workers in parts (FSDP2), for half as much traffic again. False: every worker has them whole
    (DDP).
    """
    log_every_steps: int = Field(50, ge=1)
    evaluate_every_steps: int | None = Field(None, ge=1)
    """None: at the end only."""
    early_stopping: EarlyStoppingConfig = EarlyStoppingConfig()
    save_every_steps: int = Field(1000, ge=1)
    keep_checkpoints: int = Field(2, ge=1)
    on_spike: OnSpike = "warn"
    """A loss over twice the largest of the last 50 steps: told, not learnt from, or the end."""
    mirror: Annotated[str, AfterValidator(check_address)] | None = None
    """Where committed checkpoints are copied to, and come from when the run directory has none:
    s3://bucket/run, gs://..., a path. Credentials belong into the environment. One place a run:
    runs inside another have theirs below, under their directories' names.
    """
