"""A notice board between a driver and its workers: stop, what failed, who was last seen when.

One small actor beside the driver. Workers read it twice a second from a thread of their own, so
that it works across machines and costs the loop nothing.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from road_ray import errors
from road_ray.errors import ClusterError, RoadError
from road_ray.training.signals import OUTSIDE

_log = logging.getLogger(__name__)
_BEAT_SECONDS = 0.5
LOOK_SECONDS = 10.0  # a look is taken again, so it need not wait for long
_ANSWER_SECONDS = 120.0  # far more than the board needs; one that is dead is known at once
_GRACE_SECONDS = 20.0  # for a worker to notice by itself that another one has failed


@dataclass(frozen=True)
class Heartbeat:
    """The last sign of life of a worker."""

    seen: float  # time.monotonic() of the board
    pid: int
    node: str
    step: int
    batch: str  # shapes of what it works on


Row = tuple[int, int | None, dict[str, float]]  # step, steps in all, figures


class CoordinatorActor:
    """What is pinned to the board. The first failure counts: the others follow from it."""

    def __init__(self) -> None:
        self._stop = False
        self._failure: tuple[str, str] | None = None
        self._beats: dict[int, Heartbeat] = {}
        self._deaths: list[tuple[int, Heartbeat | None, str]] = []
        self._furthest = 0
        self._rows: list[Row] = []

    def row(self, step: int, total: int | None, row: dict[str, float]) -> None:
        """A row of the journal of the worker that leads."""
        self._rows.append((step, total, row))

    def rows(self) -> list[Row]:
        """Those not asked for before."""
        told, self._rows = self._rows, []
        return told

    def stop(self) -> None:
        """Everybody is to stop after the step under way."""
        self._stop = True

    def fail(self, kind: str, text: str) -> None:
        """An error that will not go away by trying again."""
        self._failure = self._failure or (kind, text)

    def failure(self) -> tuple[str, str] | None:
        """Class and text of the first failure."""
        return self._failure

    def beat(self, rank: int, pid: int, node: str, step: int, batch: str) -> tuple[bool, bool]:
        """Note that a worker lives; gives whether to stop and whether another one has failed."""
        self._beats[rank] = Heartbeat(time.monotonic(), pid, node, step, batch)
        self._furthest = max(self._furthest, step)
        return self._stop, self._failure is not None

    def died(self, causes: dict[int, str]) -> None:
        """Workers that failed, with what Ray says of it; the others of their group go too."""
        for rank, cause in causes.items():
            self._deaths.append((rank, self._beats.get(rank), cause))
        self._beats.clear()

    def deaths(self) -> list[tuple[int, Heartbeat | None, str]]:
        """Those not asked for before, each with its last sign of life."""
        told, self._deaths = self._deaths, []
        return told

    def furthest(self) -> int:
        """The last step that any worker has ever done."""
        return self._furthest

    def leave(self, rank: int) -> None:
        """The worker is done; its silence means nothing from here on."""
        self._beats.pop(rank, None)

    def silent(self, seconds: float) -> dict[int, Heartbeat]:
        """Workers that were heard of, but not for so long."""
        now = time.monotonic()
        return {rank: beat for rank, beat in self._beats.items() if now - beat.seen > seconds}


class Coordinator:
    """A handle that driver and workers share; can be sent to Ray workers."""

    def __init__(self, actor: Any = None) -> None:
        if actor is None:
            here = NodeAffinitySchedulingStrategy(
                ray.get_runtime_context().get_node_id(), soft=False
            )
            made = ray.remote(num_cpus=0, scheduling_strategy=here)(CoordinatorActor)
            actor = made.remote()
        self.actor = actor

    def __reduce__(self) -> tuple[Any, ...]:
        return Coordinator, (self.actor,)

    def stop(self) -> None:
        """Ask everybody to stop; does not wait."""
        self.actor.stop.remote()

    def fail(self, error: RoadError) -> None:
        """Pin an error of ours; returns once it is there."""
        ray.get(self.actor.fail.remote(type(error).__name__, str(error)), timeout=_ANSWER_SECONDS)

    def failure(self) -> RoadError | None:
        """The first error that was pinned, of its own class."""
        told = ray.get(self.actor.failure.remote(), timeout=_ANSWER_SECONDS)
        return None if told is None else error_of(*told)

    def row(self, step: int, total: int | None, row: Mapping[str, float]) -> None:
        """Pin a row of the journal; does not wait."""
        self.actor.row.remote(step, total, dict(row))

    def rows(self) -> list[Row]:
        """The rows since the last call."""
        told: list[Row] = ray.get(self.actor.rows.remote(), timeout=LOOK_SECONDS)
        return told

    def died(self, causes: dict[int, str]) -> None:
        """Pin which workers failed and why; does not wait."""
        self.actor.died.remote(causes)

    def deaths(self) -> list[tuple[int, Heartbeat | None, str]]:
        """Rank, last sign of life and cause of those that failed since the last call."""
        told: list[Any] = ray.get(self.actor.deaths.remote(), timeout=LOOK_SECONDS)
        return told

    def furthest(self) -> int:
        """The last step that any worker has ever done."""
        return int(ray.get(self.actor.furthest.remote(), timeout=_ANSWER_SECONDS))

    def silent(self, seconds: float) -> dict[int, Heartbeat]:
        """Workers not heard of for so long."""
        beats: dict[int, Heartbeat] = ray.get(
            self.actor.silent.remote(seconds), timeout=LOOK_SECONDS
        )
        return beats

    def close(self) -> None:
        """Take it down."""
        ray.kill(self.actor, no_restart=True)


def error_of(name: str, text: str) -> RoadError:
    """The error of ours with that class name; a name that is unknown here gives a ClusterError."""
    kind = getattr(errors, name, ClusterError)
    error: RoadError = kind(text)
    return error


@contextmanager
def connect_worker(
    coordinator: Coordinator, rank: int, preempted: Callable[[], bool] | None = None
) -> Iterator[None]:
    """Inside, what the board says reaches the loop of this process, and the board hears of it.

    When another worker has failed and this one does not come out by itself within seconds, it ends
    the process: it waits for one that will never answer.
    """
    done = threading.Event()
    node = ray.get_runtime_context().get_node_id()
    OUTSIDE.reset(preempted)

    def hear() -> bool:
        stop, failed = ray.get(
            coordinator.actor.beat.remote(rank, os.getpid(), node, OUTSIDE.step, OUTSIDE.batch),
            timeout=_ANSWER_SECONDS,
        )
        OUTSIDE.stop = OUTSIDE.stop or stop
        OUTSIDE.look = preempted is not None
        return bool(failed)

    def listen() -> None:
        failed_since: float | None = None
        while not done.wait(_BEAT_SECONDS):
            try:
                failed = hear()
            except RayActorError:
                OUTSIDE.stop = True  # the driver has given up
                continue
            except RayError:
                continue  # slow; Ray itself decides when it is too slow
            if failed:
                failed_since = failed_since or time.monotonic()
                if time.monotonic() - failed_since > _GRACE_SECONDS and not done.is_set():
                    os._exit(1)

    hear()
    thread = threading.Thread(target=listen, name="notice-board", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(_BEAT_SECONDS)  # a beat that is sent after leaving would count as life
        coordinator.actor.leave.remote(rank)
        OUTSIDE.reset()
