"""The copies of one actor as one client sees them: whom to ask next, who hangs, who is gone."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import ray
from numpy.typing import NDArray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError

from road_ray.errors import ConfigError

logger = logging.getLogger(__name__)

OnLost = Literal["stop", "drop"]
_VERDICT_SECONDS = 1.0
_PING_SECONDS = 5.0  # a process that runs answers in milliseconds, also while it computes


@dataclass(frozen=True)
class Pool:
    """What another process needs in order to ask the same teachers; can be sent to Ray workers."""

    actors: tuple[tuple[Any, ...], ...]  # replicas of each actor
    directories: tuple[str, ...]  # of the teachers, in their order
    teachers_per_actor: int = 1
    timeout_seconds: float = 120.0  # for one answer
    start_timeout_seconds: float = 120.0
    on_lost: OnLost = "stop"
    max_in_flight: int = 64  # requests of one client at one replica

    def members(self, group: int) -> range:
        """The teachers that live in the actors ``group``."""
        begin = group * self.teachers_per_actor
        return range(begin, min(begin + self.teachers_per_actor, len(self.directories)))

    def part(self, first: int, beyond: int) -> Pool:
        """Teachers ``first`` to ``beyond - 1``, which must share no actor with others."""
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
    """Copies of one actor; each holds the same teachers."""

    def __init__(self, actors: Sequence[Any], pool: Pool, caller: str) -> None:
        self.actors = tuple(actors)
        self._pool, self._caller = pool, caller
        self._flying: list[list[Any]] = [[] for _ in actors]
        self._dead: set[int] = set()
        self._restarting: dict[int, Any] = {}  # the health call that its new process will answer
        self._turn = itertools.count()

    @property
    def all_dead(self) -> bool:
        return len(self._dead) == len(self.actors)

    def send(self, inputs: Mapping[str, NDArray[Any]], avoid: int | None = None) -> tuple[int, Any]:
        """Ask the replica with the fewest open requests; its number and the reference.

        Waits while it has ``max_in_flight`` of them. Raises ``TimeoutError`` when none is answered.
        """
        number = self._least_loaded(avoid)
        flying, most = self._flying[number], self._pool.max_in_flight
        if len(flying) >= most and self._open(number) >= most:
            _, left = ray.wait(flying, num_returns=1, timeout=self._pool.timeout_seconds)
            if len(left) == len(flying):
                raise TimeoutError
            flying[:] = left
        ref = self.actors[number].logits.remote(inputs, self._caller)
        flying.append(ref)
        return number, ref

    def has_others(self, number: int) -> bool:
        """Whether another replica than ``number`` is up."""
        return any(one != number and not self.is_down(one) for one in range(len(self.actors)))

    def is_down(self, number: int) -> bool:
        """Gone for good, or not yet there again."""
        if number in self._restarting:
            there, _ = ray.wait([self._restarting[number]], timeout=0)
            if there:
                del self._restarting[number]
        return number in self._dead or number in self._restarting

    def answers(self, number: int) -> bool:
        """Whether its process runs, however much it has to do."""
        try:
            patience = min(_PING_SECONDS, self._pool.timeout_seconds)
            ray.get(ping(self.actors[number]), timeout=patience)
            return True
        except (GetTimeoutError, RayActorError):
            return False

    def replace(self, number: int) -> None:
        """Kill its process; Ray starts another and repeats there what waits."""
        ray.kill(self.actors[number], no_restart=False)
        self.went_down(number)

    def went_down(self, number: int) -> None:
        """It is being started again: others are preferred until it is there."""
        self._flying[number].clear()
        self._restarting[number] = ping(self.actors[number])

    def is_gone(self, number: int) -> bool:
        """Whether it will not come back: then even a new call fails, and at once."""
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
        shift = next(self._turn)
        turned = sorted(choice, key=lambda number: (number - shift) % len(self.actors))
        return min(turned, key=self._open)

    def _open(self, number: int) -> int:
        """Requests that are not answered yet."""
        flying = self._flying[number]
        if flying:
            _, left = ray.wait(flying, num_returns=len(flying), timeout=0)
            flying[:] = left
        return len(flying)


def ping(actor: Any) -> Any:
    """A reference to the process id; answered beside all other requests, by a process that is
    started again as well.
    """
    return actor.health.options(concurrency_group="health", max_task_retries=-1).remote()


def cause_of(error: RayActorError) -> str:
    """What the constructor said, out of Ray's report with its remote traceback."""
    said = re.findall(r"^road_ray\.errors\.\w+: (.*)", str(error), flags=re.DOTALL | re.MULTILINE)
    return said[-1].strip() if said else str(error).strip()
