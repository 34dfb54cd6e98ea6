"""Progress of a worker's training, to notice one that hangs while the heartbeats of its process go
on: in a collective operation of NCCL, for example, or on a file system that is gone.
"""

from __future__ import annotations

from collections import deque
from statistics import median

# An evaluation, a checkpoint or an upload between two steps cannot be told from a hang, nor can the
# preparation of data and teachers before the first one. So the limits are far above what these
# usually take. Our choice.
STALL_SECONDS = 600.0  # at least, after a finished step
_FIRST_STEP_SECONDS = 3600.0  # before the first one
_USUAL_STEPS = 20  # median steps, where they are slow
_LONGEST_PAUSES = 2  # that ended, so that the next evaluation of the same length is not reported
_MEDIAN_OF = 64  # last heartbeats with a new step


class StepProgress:
    """Steps of a worker process that sends its first heartbeat ``now``, by a monotonic clock."""

    def __init__(self, now: float) -> None:
        self._step = 0
        self._since = now
        self._longest_pause = 0.0
        self._step_seconds: deque[float] = deque(maxlen=_MEDIAN_OF)
        self._reported = False

    def update(self, step: int, now: float) -> None:
        """Store the last finished step of the process; 0 before the first one."""
        if step == self._step:
            return
        if self._step:  # what precedes the first step is no pause
            pause = now - self._since
            self._longest_pause = max(self._longest_pause, pause)
            self._step_seconds.append(pause / max(1, step - self._step))
        self._step, self._since, self._reported = step, now, False

    def new_stall(self, now: float, minimum_seconds: float = STALL_SECONDS) -> float | None:
        """Return the seconds since the last finished step, once, when they exceed the limit, which
        is at least ``minimum_seconds``; otherwise None.
        """
        seconds = now - self._since
        if self._reported or seconds <= self._limit(minimum_seconds):
            return None
        self._reported = True
        return seconds

    def _limit(self, minimum_seconds: float) -> float:
        if not self._step:
            return _FIRST_STEP_SECONDS
        usual = median(self._step_seconds) if self._step_seconds else 0.0
        return max(minimum_seconds, _USUAL_STEPS * usual, _LONGEST_PAUSES * self._longest_pause)
