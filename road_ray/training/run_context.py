"""Settings and surroundings of a training, given besides its objective and data."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from road_ray.data.batching import BatchTotals
from road_ray.training.checkpoint.atomic_commit import Checkpoints
from road_ray.training.config import OptimizerConfig, TrainingConfig
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.monitoring.trackers import RowCallback

if TYPE_CHECKING:
    from road_ray.training.performance.profile import Measured


@dataclass
class RunContext:
    """Communication between a training and its host process: one object, created by the caller of
    a run and passed down to the training loop.

    The host sets ``stop`` and ``check_preemption``, also from another thread; the loop sets
    ``step``, ``batch`` and ``measured``.
    """

    plan_only: bool = False
    """Measure a few steps instead of training; ``measured`` holds the result."""
    on_row: RowCallback | None = None
    """Called with every row of the journal; may end the run by ``SystemExit``."""
    preempted: Callable[[], bool] | None = None
    """Returns True when the machine of any worker is about to be taken away. A collective call: all
    workers of the group make it after the same step.
    """
    stop: threading.Event = field(default_factory=threading.Event)
    """Set to stop the run, with a checkpoint, after the step in progress."""
    check_preemption: bool = False
    """Set by the host to have ``preempted`` called again; cleared by the call."""
    step: int = 0
    """Last finished step."""
    batch: str = "nothing yet"
    """Shapes of the batches of the step in progress."""
    measured: Measured | None = None
    """Result of a run that is ``plan_only``."""

    def nested(self) -> RunContext:
        """Return the context of a training inside this one, on this worker alone. It shares stop
        requests, but not rows, steps and preemption notices.
        """
        return RunContext(stop=self.stop)


@dataclass(frozen=True)
class Training:
    """Settings of one training, and where its checkpoints and figures go."""

    config: TrainingConfig
    optimizer: OptimizerConfig
    total_steps: int
    seed: int
    checkpoints: Checkpoints
    journal: Journal
    identity: Mapping[str, str]
    """Digests that a resumed run must share: data, tokenizer, teachers."""
    phase_starts: tuple[int, ...] = (0,)
    """Steps at which rows become longer; a plan measures each phase."""
    totals: Callable[[], Sequence[BatchTotals]] | None = None
    """Sizes of all batches of each phase, for a plan. None: the plan uses the measured batches."""
    rows_per_epoch: int | None = None
    """Rows of the training data, for a plan. None: several data sets, which end at other times."""
    evaluate: Callable[[], Mapping[str, float]] | None = None
    record: Mapping[str, Any] = field(default_factory=dict)
    """Written into every checkpoint; not compared on resume."""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """Keys that decide the result. A remote copy of a run with other values is refused."""
    tokenizer: Any = None
    """Saved beside the model of every checkpoint, so that any stage can start from one."""
    context: RunContext = field(default_factory=RunContext)
