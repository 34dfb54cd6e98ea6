"""Requests to stop or to save now: SIGTERM, Ctrl-C, and those of a ``RunContext``."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

import torch

from road_ray.training.run_context import RunContext
from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)
# A machine is taken away up to two minutes after its notice; the work of that time is saved too.
_SAVE_AGAIN_SECONDS = 5.0
_EXCHANGE_EVERY_STEPS = 8  # on GPUs, which wait for the exchange


class StopRequest:
    """Context manager in which the first SIGTERM or SIGINT only sets ``requested``; a second one
    acts as usual.

    Outside the main thread, where Python cannot catch signals, only the ``RunContext`` is read. A
    signal to an instance inside another one sets both.
    """

    def __init__(self, context: RunContext | None = None) -> None:
        self.requested = False
        self._context = context or RunContext()
        self._handlers: dict[int, Any] = {}  # the former ones, by signal
        self._saved_at = -math.inf  # time.monotonic() of the last checkpoint for a preemption

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        outer = getattr(self._handlers.get(number), "__self__", None)
        self._restore()
        if isinstance(outer, StopRequest):
            outer._handle(number, frame)

    def _restore(self) -> None:
        while self._handlers:
            number, handler = self._handlers.popitem()
            signal.signal(number, handler)

    def after_step(self, step: int, worker: Worker) -> tuple[bool, bool]:
        """Return two flags, equal on all workers: stop now, and save now but continue."""
        context = self._context
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
