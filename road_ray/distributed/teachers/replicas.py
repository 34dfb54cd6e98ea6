"""Replicas of one actor as seen by one client: load balancing, liveness, restarts."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError

from road_ray.errors import ConfigError

logger = logging.getLogger(__name__)

OnLost = Literal["stop", "drop"]
_VERDICT_SECONDS = 1.0
_PING_SECONDS = 5.0  # a live process answers within milliseconds, also while it computes


@dataclass(frozen=True)
class Pool:
    """Handle to the teachers of a pool; it can be sent to other processes and Ray workers."""

    actors: tuple[tuple[Any, ...], ...]  # by group, then replica
    directories: tuple[str, ...]  # of the teachers, in order
    teachers_per_actor: int = 1
    timeout_seconds: float = 120.0  # per answer
    start_timeout_seconds: float = 120.0
    on_lost: OnLost = "stop"
    max_in_flight: int = 64  # requests per client and replica

    def members(self, group: int) -> range:
        """Return the indices of the teachers in the actors ``group``."""
        begin = group * self.teachers_per_actor
        return range(begin, min(begin + self.teachers_per_actor, len(self.directories)))

    def part(self, first: int, beyond: int) -> Pool:
        """Return the pool of teachers ``first`` to ``beyond - 1``. Raises ``ConfigError`` if they
        share an actor with other teachers.
        """
        each, total = self.teachers_per_actor, len(self.directories)
        if first % each or (beyond % each and beyond != total):
            raise ConfigError(
                f"distillation.teachers_per_actor is {each}: teachers {first} to {beyond - 1} "
                "share an actor with others\n"
                "  allowed: a number that divides the teachers of a fold"
            )
        groups = self.actors[first // each : -(-beyond // each)]
        return replace(self, actors=groups, directories=self.directories[first:beyond])


class Replicas:
    """Replicas of one actor; each holds the same teachers."""

    def __init__(self, actors: Sequence[Any], pool: Pool, caller: str) -> None:
        self.actors = tuple(actors)
        self._pool, self._caller = pool, caller
        self._in_flight: list[list[Any]] = [[] for _ in actors]
        self._dead: set[int] = set()
        self._restarting: dict[int, Any] = {}  # pending health call of the new process
        self._round_robin = itertools.count()

    @property
    def all_dead(self) -> bool:
        return len(self._dead) == len(self.actors)

    def send(
        self, inputs: Mapping[str, NDArray[np.generic]], avoid: int | None = None
    ) -> tuple[int, Any]:
        """Send a request to the replica with the fewest open requests; return its number and the
        reference.

        Blocks while the replica has ``max_in_flight`` requests. Raises ``TimeoutError`` if none is
        answered.
        """
        number = self._least_loaded(avoid)
        in_flight, most = self._in_flight[number], self._pool.max_in_flight
        if len(in_flight) >= most and self._open(number) >= most:
            _, unanswered = ray.wait(in_flight, num_returns=1, timeout=self._pool.timeout_seconds)
            if len(unanswered) == len(in_flight):
                raise TimeoutError
            in_flight[:] = unanswered
        ref = self.actors[number].logits.remote(inputs, self._caller)
        in_flight.append(ref)
        return number, ref

    def unanswered(self) -> list[Any]:
        """Return the references of requests whose answers have not come."""
        return [ref for n in range(len(self.actors)) if self._open(n) for ref in self._in_flight[n]]

    def has_others(self, number: int) -> bool:
        """Return True if another replica than ``number`` is up."""
        return any(i != number and not self.is_down(i) for i in range(len(self.actors)))

    def is_down(self, number: int) -> bool:
        """Return True if the replica is gone for good or restarting."""
        if number in self._restarting:
            answered, _ = ray.wait([self._restarting[number]], timeout=0)
            if answered:
                del self._restarting[number]
        return number in self._dead or number in self._restarting

    def answers(self, number: int) -> bool:
        """Return True if the process of the replica is alive, even if it is busy."""
        try:
            patience = min(_PING_SECONDS, self._pool.timeout_seconds)
            ray.get(ping(self.actors[number]), timeout=patience)
            return True
        except (GetTimeoutError, RayActorError):
            return False

    def replace(self, number: int) -> None:
        """Kill the process; Ray starts another one and repeats its pending requests."""
        ray.kill(self.actors[number], no_restart=False)
        self.went_down(number)

    def went_down(self, number: int) -> None:
        """Mark a replica as restarting; others are preferred until it is up."""
        self._in_flight[number].clear()
        self._restarting[number] = ping(self.actors[number])

    def is_gone(self, number: int) -> bool:
        """Return True if the replica will not restart: a new call then fails at once."""
        try:
            ray.get(ping(self.actors[number]), timeout=_VERDICT_SECONDS)
        except (GetTimeoutError, ActorUnavailableError):
            return False
        except RayActorError:
            self._restarting.pop(number, None)
            self._dead.add(number)
            return True
        return False

    def _least_loaded(self, avoid: int | None) -> int:
        numbers = range(len(self.actors))
        if len(numbers) == 1:
            return 0
        living = [number for number in numbers if number not in self._dead]
        up = [number for number in living if not self.is_down(number)]
        choice = [number for number in up if number != avoid] or up or living or [*numbers]
        shift = next(self._round_robin)
        turned = sorted(choice, key=lambda number: (number - shift) % len(self.actors))
        return min(turned, key=self._open)

    def _open(self, number: int) -> int:
        """Return the number of unanswered requests."""
        in_flight = self._in_flight[number]
        if in_flight:
            _, unanswered = ray.wait(in_flight, num_returns=len(in_flight), timeout=0)
            in_flight[:] = unanswered
        return len(in_flight)


def ping(actor: Any) -> Any:
    """Return a reference to the process id. The call bypasses queued requests and survives a
    restart.
    """
    return actor.health.options(concurrency_group="health", max_task_retries=-1).remote()


def cause_of(error: RayActorError) -> str:
    """Return the message of the constructor's error, without Ray's remote traceback."""
    messages = re.findall(
        r"^road_ray\.errors\.\w+: (.*)", str(error), flags=re.DOTALL | re.MULTILINE
    )
    return messages[-1].strip() if messages else str(error).strip()
