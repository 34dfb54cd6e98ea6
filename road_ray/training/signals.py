"""SIGTERM and Ctrl-C ask the loop to stop at the next step; a second one stops at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

import torch

from road_ray.training.worker import Worker


class StopRequest:
    """A context in which SIGTERM and SIGINT only set a flag; where signals cannot be caught it does
    nothing.
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
        self._restore()

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    def on_any(self, worker: Worker) -> bool:
        """True when any worker was asked, so that all stop after the same step."""
        if worker.size == 1:
            return self.asked
        return bool(worker.total(torch.tensor(float(self.asked), device=worker.device)) > 0)
