"""Actor through which a driver and its workers talk: stop requests, failures, heartbeats, rows.

One small actor on the driver's node. A thread of each worker calls it twice a second, less often in
a large group, so it works across machines and costs the training loop nothing.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import ray
from ray.exceptions import RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from road_ray import errors
from road_ray.errors import ClusterError, RoadError

if TYPE_CHECKING:  # it imports torch, for which the actor would wait a second
    from road_ray.training.run_context import RunContext

_log = logging.getLogger(__name__)
T = TypeVar("T")
_BEAT_SECONDS = 0.5
_BEATS_PER_SECOND = 128  # of all workers at most: they take the actor a tenth of a core
_POLL_TIMEOUT_SECONDS = 10.0  # of calls that are repeated anyway
_ANSWER_SECONDS = 120.0  # far more than the actor needs; a dead one is noticed at once
_GRACE_SECONDS = 20.0  # for a worker to notice by itself that another one has failed


@dataclass(frozen=True)
class Heartbeat:
    """Last sign of life of a worker."""

    pid: int
    step: int
    batch: str  # shapes of its batches


Row = tuple[int, int | None, dict[str, float]]  # step, total steps, metrics
Death = tuple[int, Heartbeat | None, str]  # rank, last sign of life, cause in Ray's words


class Outbox(Generic[T]):
    """Items until the driver says that it has them: an answer may come too late and be lost."""

    def __init__(self) -> None:
        self.items: list[T] = []
        self._forgotten = 0

    def behind(self, received: int) -> list[T]:
        """Return the items behind the first ``received`` of all, and forget those."""
        del self.items[: received - self._forgotten]
        self._forgotten = received
        return list(self.items)


class WorkerChannelActor:
    """State shared by driver and workers. Only the first failure is stored: others follow from
    it.
    """

    def __init__(self) -> None:
        self._stop = False
        self._failure: tuple[str, str] | None = None
        self._beats: dict[int, Heartbeat] = {}
        self._deaths = Outbox[Death]()
        self._furthest = 0
        self._rows = Outbox[Row]()
        self._texts: set[str] = set()

    def is_new(self, text: str) -> bool:
        """Return True the first time that a text is asked for."""
        before = len(self._texts)
        self._texts.add(text)
        return len(self._texts) > before

    def row(self, step: int, total: int | None, row: dict[str, float]) -> None:
        """Store a row of the journal of the leading worker."""
        self._rows.items.append((step, total, row))

    def rows(self, received: int) -> list[Row]:
        """Return the rows behind the first ``received``, which are forgotten."""
        return self._rows.behind(received)

    def stop(self) -> None:
        """Tell all workers to stop after the step in progress."""
        self._stop = True

    def fail(self, kind: str, text: str) -> None:
        """Store an error that a retry does not cure."""
        self._failure = self._failure or (kind, text)

    def failure(self) -> tuple[str, str] | None:
        """Return class name and text of the first failure."""
        return self._failure

    def beat(self, rank: int, pid: int, step: int, batch: str) -> tuple[bool, bool]:
        """Store a heartbeat; return whether to stop and whether another worker has failed."""
        self._beats[rank] = Heartbeat(pid, step, batch)
        self._furthest = max(self._furthest, step)
        return self._stop, self._failure is not None

    def died(self, causes: dict[int, str]) -> None:
        """Store which workers died and Ray's causes. Ray ends the rest of their group too."""
        for rank, cause in causes.items():
            self._deaths.items.append((rank, self._beats.get(rank), cause))
        self._beats.clear()

    def deaths(self, received: int) -> list[Death]:
        """Return the deaths behind the first ``received``, which are forgotten."""
        return self._deaths.behind(received)

    def furthest(self) -> int:
        """Return the last step that any worker has finished."""
        return self._furthest


class WorkerChannel:
    """Handle of a ``WorkerChannelActor``; can be sent to Ray workers."""

    def __init__(self, actor: Any = None) -> None:
        if actor is None:
            here = NodeAffinitySchedulingStrategy(
                ray.get_runtime_context().get_node_id(), soft=False
            )
            remote = ray.remote(num_cpus=0, scheduling_strategy=here)(WorkerChannelActor)
            actor = remote.remote()
        self.actor = actor
        self._rows = self._deaths = 0  # received by this process

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerChannel, (self.actor,)

    def stop(self) -> None:
        """Tell all workers to stop; does not wait."""
        self.actor.stop.remote()

    def fail(self, error: RoadError) -> None:
        """Store an error that a retry does not cure; returns once it is stored."""
        ray.get(self.actor.fail.remote(type(error).__name__, str(error)), timeout=_ANSWER_SECONDS)

    def failure(self) -> RoadError | None:
        """Return the first stored error, of its own class."""
        failure = ray.get(self.actor.failure.remote(), timeout=_ANSWER_SECONDS)
        return None if failure is None else error_of(*failure)

    def is_new(self, text: str) -> bool:
        """Return True for the first worker that asks for a text."""
        try:
            return bool(ray.get(self.actor.is_new.remote(text), timeout=_POLL_TIMEOUT_SECONDS))
        except RayError:
            return True

    def row(self, step: int, total: int | None, row: Mapping[str, float]) -> None:
        """Store a row of the journal; does not wait."""
        self.actor.row.remote(step, total, dict(row))

    def rows(self) -> list[Row]:
        """Return the rows since the last call that returned."""
        ref = self.actor.rows.remote(self._rows)
        rows: list[Row] = ray.get(ref, timeout=_POLL_TIMEOUT_SECONDS)
        self._rows += len(rows)
        return rows

    def died(self, causes: dict[int, str]) -> None:
        """Store which workers died, and why; does not wait."""
        self.actor.died.remote(causes)

    def deaths(self) -> list[Death]:
        """Return the deaths since the last call that returned."""
        ref = self.actor.deaths.remote(self._deaths)
        deaths: list[Death] = ray.get(ref, timeout=_POLL_TIMEOUT_SECONDS)
        self._deaths += len(deaths)
        return deaths

    def furthest(self) -> int:
        """Return the last step that any worker has finished."""
        return int(ray.get(self.actor.furthest.remote(), timeout=_ANSWER_SECONDS))

    def close(self) -> None:
        """End the actor."""
        ray.kill(self.actor, no_restart=True)


def error_of(name: str, text: str) -> RoadError:
    """Return the error of ``road_ray.errors`` with that class name, else a ``ClusterError``."""
    kind = getattr(errors, name, ClusterError)
    error: RoadError = kind(text)
    return error


def beat_seconds(num_workers: int) -> float:
    """Return the seconds between two heartbeats of a worker in a group of ``num_workers``."""
    return max(_BEAT_SECONDS, num_workers / _BEATS_PER_SECOND)


@contextmanager
def connect_worker(
    channel: WorkerChannel, rank: int, context: RunContext, num_workers: int = 1
) -> Iterator[None]:
    """Connect the ``RunContext`` of a worker with the channel: a thread sends heartbeats and
    sets ``context.stop`` and ``context.check_preemption``.

    A worker that waits for one that has failed would wait for ever: if it has not left this block
    20 s after the failure, its process exits.
    """
    finished = threading.Event()

    def beat() -> bool:
        stop, failed = ray.get(
            channel.actor.beat.remote(rank, os.getpid(), context.step, context.batch),
            timeout=_ANSWER_SECONDS,
        )
        if stop:
            context.stop.set()
        context.check_preemption = context.preempted is not None
        return bool(failed)

    def run() -> None:
        failed_since: float | None = None
        while not finished.wait(beat_seconds(num_workers)):
            try:
                failed = beat()
            except RayActorError:
                context.stop.set()  # the driver has given up
                continue
            except RayError:
                continue  # slow; Ray itself decides when it is too slow
            if failed:
                failed_since = failed_since or time.monotonic()
                if time.monotonic() - failed_since > _GRACE_SECONDS and not finished.is_set():
                    os._exit(1)

    beat()
    thread = threading.Thread(target=run, name="channel", daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join(_BEAT_SECONDS)
