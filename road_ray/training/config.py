"""Configuration of the training loop: optimizer, schedule, evaluation, checkpoints, memory.

``OptimizerConfig`` is the section ``optimizer`` and ``TrainingConfig`` the section ``training`` of
every verb that trains. ``training/optimizer.py`` consumes the first, ``training/loop.py`` and the
modules that it calls the second.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt

from road_ray.config import Config
from road_ray.config.base import Free, FreeOnResume
from road_ray.models.config import Precision


class OptimizerConfig(Config):
    """Optimizer, learning-rate schedule, weight decay and gradient clipping. Source of the
    defaults: google-research/electra, model/optimization.py; Clark et al. 2020, table 6.
    """

    name: Literal["adamw", "lamb"] = "adamw"
    """Update rule. ``adamw``: Adam with decoupled weight decay. ``lamb``: Adam with a learning rate
    for each weight matrix, for batches of thousands of rows (You et al. 2020, algorithm 2)."""
    peak_lr: float = Field(5e-4, gt=0, le=1)
    """Peak learning rate of the heads; ``optimizer.layer_decay`` lowers it for the other layers.
    Pre-training: 5e-4 for ELECTRA-Small, 2e-4 for Base and Large. Fine-tuning: 3e-4 for Small, 1e-4
    for Base, 5e-5 for Large (Clark et al. 2020, tables 6 and 7). Lower it first when a run
    diverges."""
    schedule: Literal["warmup_times_decay", "warmup_then_decay", "constant"] = "warmup_times_decay"
    """Learning rate over the steps. ``warmup_times_decay``: linear warm-up times linear decay over
    all steps, so that the rate stays below its peak (google-research/electra).
    ``warmup_then_decay``: linear warm-up to the peak, then linear decay to 0. ``constant``: linear
    warm-up, then the peak."""
    warmup_steps: NonNegativeInt | Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Length of the warm-up, in steps, or below 1 as a fraction of all steps. 10,000 in ELECTRA's
    pre-training, 0.1 in its fine-tuning (Clark et al. 2020, table 7), 500 in ROaD's multi-task
    stage."""
    weight_decay: float = Field(0.01, ge=0, le=1)
    """Decoupled weight decay coefficient, times the learning rate; biases and LayerNorm weights
    never decay. 0.01 in pre-training, 0 in ELECTRA's fine-tuning (Clark et al. 2020, tables 6 and
    7)."""
    layer_decay: float = Field(1.0, gt=0, le=1)
    """Factor of the learning rate from each layer to the one below it; 1 gives all layers the same
    rate. Pre-training: 1. Fine-tuning: 0.8 for ELECTRA-Small and Base, 0.9 for Large. ROaD's
    multi-task stage: 0.75."""
    layer_decay_mode: Literal["paper", "electra_code"] = "paper"
    """Exponent of ``optimizer.layer_decay``. ``paper``: the top layer gets the factor once.
    ``electra_code``: twice, as in the released code, which probably produced the published results
    (google-research/electra, issue 51)."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (
        0.9,
        0.999,
    )
    """Decay rates of Adam's two moments. Source: Clark et al. 2020, table 6. [0.9, 0.98] suits
    short runs and MC-BERT."""
    bias_correction: bool = False
    """Divide Adam's moments by 1 - beta ** step, as Kingma and Ba 2015 do. False: as
    google-research/electra. True suits short runs, whose first updates are too large without it."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Maximum L2 norm of the gradient of all parameters together; larger gradients are scaled down.
    Source: google-research/electra. A very large number switches clipping off."""


class EarlyStoppingConfig(Config):
    """Condition that ends a training before its last step."""

    patience: int | None = Field(None, ge=1)
    """Number of evaluations in a row without improvement after which training ends and the best
    weights are restored. None: training runs to its last step and keeps the last weights. It needs
    ``training.evaluate_every_steps``."""
    metric: str | None = None
    """Metric to compare, such as ``eval/mrpc/f1``; larger is better. None: the mean over the
    evaluated data sets of the principal metric of each, such as the F1 of SQuAD 2.0."""


class TrainingConfig(Config):
    """Length of a training, its evaluations and checkpoints, and its use of memory and devices."""

    steps: int | None = Field(None, ge=1)
    """Number of optimizer updates. None: ``data.epochs`` decides; ``road pretrain`` and ``road
    multitask`` need a number."""
    passes: int = Field(1, ge=1)
    """Number of batches in each step, which count as one batch of this many times
    ``data.batch_size`` examples: its gradient, to rounding (gradient accumulation). 1 in ``road
    multitask``, which has ``mixing.passes``. Raise it where a larger batch does not fit into
    memory."""
    precision: Precision = "auto"
    """Number format of matrix products. ``fp32``: full precision, on a GPU too, where TF32 stays
    off as PyTorch has it. ``bf16``: autocast to bfloat16. ``auto``: bf16 where the device is faster
    with it. Weights and optimizer state stay in fp32."""
    activation_checkpointing: Free[bool] = False
    """Recompute the activations of each layer in the backward pass instead of storing them: less
    memory, about a third more time, the same gradients (Chen et al. 2016). Set it where a batch
    does not fit."""
    torch_compile: bool = False
    """Compile the encoders with ``torch.compile``. Worth it on GPUs only: on a CPU, compilation
    took three minutes and steps became slower. Parts that cannot be compiled run uncompiled."""
    fsdp: Free[bool] = False
    """Shard parameters, gradients and optimizer state over the workers (FSDP2), for models that one
    device cannot hold; it costs half as much communication again. False: every worker holds a full
    copy (DDP)."""
    log_every_steps: Free[int | None] = Field(None, ge=1)
    """Number of steps between two rows of ``metrics.jsonl``. None: 50, or a twentieth of a training
    of less than 1,000 steps, so that its curves have points. Our choice."""
    evaluate_every_steps: Annotated[int | None, FreeOnResume(unless="early_stopping.patience")] = (
        Field(None, ge=1)
    )
    """Number of steps between two evaluations. None: at the end only. ``training.early_stopping``
    and the schedulers of sweeps need intermediate evaluations. ``road pretrain`` evaluates
    nothing."""
    early_stopping: EarlyStoppingConfig = EarlyStoppingConfig()
    """Condition that ends the training before its last step. By default there is none."""
    save_every_steps: Free[int] = Field(1000, ge=1)
    """Number of steps between two checkpoints: the work that a crash can lose. The last step is
    always saved. Our choice."""
    keep_checkpoints: Free[int] = Field(2, ge=1)
    """Number of newest checkpoints to keep; older ones are deleted. With 2, a run survives damage
    to the newest one. Our choice."""
    keep_checkpoints_at_end: Free[int | None] = Field(None, ge=0)
    """Number of newest checkpoints to keep once the run has finished and its model is in ``hf/``.
    They hold the optimizer too and take about four times the space of the model. None: 1 for ``road
    pretrain``, which ``road data peek`` reads and which took longest to compute, else 0. A run that
    was stopped or failed keeps all."""
    mirror: Free[str | None] = Field(None, min_length=1)
    """Address of a second copy of the checkpoints: ``s3://bucket/run``, ``gs://bucket/run`` or a
    path. A run directory without checkpoints is restored from it. Nested runs use sub-directories.
    None: no copy. Credentials belong in the environment."""

    def mirrored_below(self, place: Path) -> Self:
        """Return the settings of a run inside another, with its mirror below the other's. ``place``
        is its directory relative to the other's.
        """
        if self.mirror is None:
            return self
        from road_ray.system.remote_files import address_below  # with pyarrow

        return self.model_copy(update={"mirror": address_below(self.mirror, place)})
