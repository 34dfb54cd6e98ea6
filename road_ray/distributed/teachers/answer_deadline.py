"""Deadline of a teacher's answer, and what follows when it passes: a slow teacher is waited for
once more, a dead one is replaced, and one that does not answer after that is given up. So is one
whose calls fail again and again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

from road_ray.distributed.teachers.replicas import Replicas

_MAX_MISSED = 2  # deadlines of a request before its teacher is given up
_MAX_UNREACHABLE = 4  # failed calls of a request before its teacher is given up


@dataclass
class ReplicaRequest:
    """One request to one replica, with the deadline of its answer."""

    replica: int
    ref: Any
    deadline: float = 0.0  # of time.monotonic(); set while a caller waits for it
    missed: int = 0  # deadlines
    unreachable: int = 0  # calls that failed because the replica could not be reached
    replaced: bool = False  # its replica was replaced after a missed deadline

    def extend(self, seconds: float) -> None:
        """Set the deadline to ``seconds`` from now."""
        self.deadline = time.monotonic() + seconds

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self.deadline

    def after_deadline(self, replicas: Replicas) -> Literal["wait", "replace", "give up"]:
        """Count a missed deadline and return what to do: ``wait`` once more for a replica that is
        alive, ``replace`` one that is not, ``give up`` the teacher if neither has helped.
        """
        self.missed += 1
        if self.missed > _MAX_MISSED or (self.replaced and not replicas.has_others(self.replica)):
            return "give up"
        if self.missed == 1 and replicas.answers(self.replica):
            return "wait"
        self.replaced = True
        return "replace"

    def after_failure(self, replicas: Replicas) -> Literal["resend", "give up"]:
        """Count a call that did not reach its replica and return what to do."""
        self.unreachable += 1
        gone = replicas.all_dead or self.unreachable >= _MAX_UNREACHABLE
        return "give up" if gone else "resend"
