"""Settings and surroundings of a training, given besides its objective and data."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from road_ray.data.batching import BatchTotals
from road_ray.errors import ResourceError
from road_ray.models.config import Attention
from road_ray.training.checkpoint_directory import Checkpoints
from road_ray.training.config import OptimizerConfig, TrainingConfig
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.monitoring.trackers import RowCallback
from road_ray.training.worker import Worker

if TYPE_CHECKING:
    from road_ray.training.profile import Measured


_log = logging.getLogger(__name__)
# A machine is taken away up to two minutes after its notice; the work of that time is saved too.
_SAVE_AGAIN_SECONDS = 5.0
_EXCHANGE_EVERY_STEPS = 8  # on GPUs, which wait for the exchange
# The allocator of the CPU, cuBLAS, pinned memory and NCCL raise a plain RuntimeError.
_SIGNS = ("can't allocate memory", "out of memory", "STATUS_ALLOC_FAILED")
REMEDY = "a smaller data.batch_size with more training.passes, or a smaller data.max_length_tokens"


@dataclass
class RunContext:
    """Communication between a training and its host process: one object, created by the caller of
    a run and passed down to the training loop.

    The host sets ``stop`` and ``check_preemption``, also from another thread; the loop sets
    ``step``, ``batch`` and ``measured``.

    >>> import road_ray as rr
    >>> steps = []
    >>> watched = rr.RunContext(on_row=lambda step, total, row: steps.append((step, total)))
    >>> run = rr.finetune(
    ...     init="runs/encoder", run_dir="runs/watched", context=watched,
    ...     data={"root": "miniature", "max_judged_rows": 16}, training={"steps": 2},
    ... )
    >>> (2, 2) in steps, watched.step
    (True, 2)
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
    """Shapes of the batches of the step in progress, rows first: ``8 x 128 tokens``."""
    measured: Measured | None = None
    """Result of a run that is ``plan_only``."""


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
    worker: Worker = field(default_factory=Worker)
    """This process among those that train."""
    attention: Attention = "auto"
    """Attention implementation of the encoders."""
    totals: Callable[[], BatchTotals] = lambda: BatchTotals(0, 0, 0)
    """Sizes of all batches, for a plan."""
    rows_per_epoch: int | None = None
    """Rows of the training data, for a plan. None: several data sets, which end at other times."""
    evaluate: Callable[[], Mapping[str, float]] | None = None
    """Returns the metrics of an evaluation before the last step; collective. None: there are none.
    """
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """Keys that decide the result. A remote copy of a run with other values is refused."""
    tokenizer: Any = None
    """Saved beside the model of every checkpoint, so that any stage can start from one."""
    context: RunContext = field(default_factory=RunContext)


@dataclass
class StopRequest:
    """Context manager in which the first SIGTERM or SIGINT only sets ``requested``; a second one
    acts as usual.

    Outside the main thread, where Python cannot catch signals, only the ``RunContext`` is read.
    """

    context: RunContext = field(default_factory=RunContext)
    requested: bool = False
    _handlers: dict[int, Any] = field(default_factory=dict)  # the former ones, by signal
    _saved_at: float = -math.inf  # time.monotonic() of the last checkpoint for a preemption

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._handlers[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, *_: object) -> None:
        self.requested = True
        self.__exit__()

    def __exit__(self, *_: object) -> None:
        while self._handlers:
            number, handler = self._handlers.popitem()
            signal.signal(number, handler)

    def after_step(self, step: int, worker: Worker) -> tuple[bool, bool]:
        """Return two flags, equal on all workers: stop now, and save now but continue."""
        context = self.context
        context.step = step
        due = context.check_preemption and time.monotonic() - self._saved_at > _SAVE_AGAIN_SECONDS
        stop = self.requested or context.stop.is_set()
        if worker.size > 1 and worker.device.type == "cuda" and step % _EXCHANGE_EVERY_STEPS:
            return False, False
        if worker.size > 1:
            flags = torch.tensor((stop, due), dtype=torch.float32, device=worker.device)
            stop, due = (flag > 0 for flag in worker.total(flags).tolist())
        if not due or context.preempted is None:
            return stop, False
        context.check_preemption = False
        if not context.preempted():
            return stop, False
        if self._saved_at == -math.inf:
            _log.warning("a machine is about to be taken away: saving after step %d", step)
        self._saved_at = time.monotonic()
        return stop, True


@contextmanager
def oom_as_error(rank: int, context: RunContext) -> Iterator[None]:
    """Turn an out-of-memory error into a ``ResourceError`` that names rank, step and batch."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        known = isinstance(error, torch.OutOfMemoryError | MemoryError)
        if not known and not any(sign in str(error) for sign in _SIGNS):
            raise
        raise ResourceError(
            f"worker {rank} ran out of memory after step {context.step}, at work on "
            f"{context.batch}: {str(error).splitlines()[0]}\n  fix: {REMEDY}\n"
            "  kept: the newest checkpoint, if there is one; the same command resumes from it"
        ) from error
