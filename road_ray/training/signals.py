"""SIGTERM and Ctrl-C ask the loop to stop at the next step; a second one stops at once. Whatever
hosts the process may ask too, and tell that its machine is about to be taken away.
"""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

import torch

from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)
# Between a notice and the end of a machine lie up to two minutes, which would be lost otherwise.
_SAVE_AGAIN_SECONDS = 5.0


@dataclass
class Outside:
    """What a host tells this process, and what it may read of it. Nothing is told by default."""

    stop: bool = False
    look: bool = False  # time to ask whether the machine is being taken away
    preempted: Callable[[], bool] | None = None  # asked on all workers at once
    saved_at: float = -math.inf  # time.monotonic() of the last checkpoint taken for that reason
    step: int = 0  # the last one that was done
    batch: str = "nothing yet"  # shapes of the passes of the step under way

    def reset(self, preempted: Callable[[], bool] | None = None) -> None:
        """As if nothing had been told."""
        self.stop = self.look = False
        self.saved_at = -math.inf
        self.preempted, self.step, self.batch = preempted, 0, "nothing yet"


OUTSIDE = Outside()
"""One a process, as its signals are."""


@contextmanager
def apart() -> Iterator[None]:
    """Inside, a training of one worker of a group goes on without the others: what they are all
    asked at once is left to be asked afterwards.
    """
    preempted, step, batch = OUTSIDE.preempted, OUTSIDE.step, OUTSIDE.batch
    OUTSIDE.preempted = None
    try:
        yield
    finally:
        OUTSIDE.preempted, OUTSIDE.step, OUTSIDE.batch = preempted, step, batch


class StopRequest:
    """A context in which SIGTERM and SIGINT only set a flag; where signals cannot be caught it does
    nothing. A request to one that lies inside another goes to both.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        before = self._before.get(number)
        self._restore()
        outer = getattr(before, "__self__", None)
        if isinstance(outer, StopRequest):
            outer._ask(number, frame)

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    def on_any(self, worker: Worker) -> bool:
        """True when any worker was asked, so that all stop after the same step."""
        return self.after_step(0, worker)[0]

    def after_step(self, step: int, worker: Worker) -> tuple[bool, bool]:
        """Whether to stop, and whether to save at once and go on; the same on all workers."""
        OUTSIDE.step = step
        waited = time.monotonic() - OUTSIDE.saved_at > _SAVE_AGAIN_SECONDS
        asked = (self.asked or OUTSIDE.stop, OUTSIDE.look and waited)
        if worker.size > 1:
            told = worker.total(torch.tensor(asked, dtype=torch.float32, device=worker.device))
            asked = (bool(told[0] > 0), bool(told[1] > 0))
        stop, look = asked
        if not look or OUTSIDE.preempted is None:
            return stop, False
        OUTSIDE.look = False
        if not OUTSIDE.preempted():
            return stop, False
        if OUTSIDE.saved_at == -math.inf:
            _log.warning("a machine is about to be taken away: saving after step %d", step)
        OUTSIDE.saved_at = time.monotonic()
        return stop, True
