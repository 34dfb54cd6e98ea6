"""Client of teachers in actors: order kept, a deadline on every wait.

A forward pass is pure, so a request can be sent again. Ray restarts a teacher that dies and sends
its requests again; with replicas, another one answers meanwhile. A teacher that does not answer in
time is killed once, so that Ray starts it afresh. One that does not answer after that stops the
run: the remaining teachers are never averaged silently.
"""

from __future__ import annotations

import itertools
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import ray
import torch
from numpy.typing import NDArray
from ray.exceptions import GetTimeoutError, ObjectLostError, RayActorError, RayTaskError
from torch import Tensor

from road_ray.distillation.ensemble.protocol import OWN_TOKENS, Ensemble, numbered, stacked
from road_ray.distributed.placement import free_resources
from road_ray.distributed.teachers.actor import packed_inputs
from road_ray.distributed.teachers.request_batcher import Inputs, Stats
from road_ray.errors import ClusterError, RoadError

logger = logging.getLogger(__name__)

Answered = tuple[NDArray[np.generic], float, Stats]

_KEPT = "  kept: checkpoints and the journal; to resume, run the same command"
_RETRIES = 3  # of Ray, of a request whose teacher dies
_LAST_SECONDS = 10.0  # that the end of a run waits for answers that nobody reads


@dataclass(frozen=True)
class Pool:
    """Handle to the teachers of a pool; it can be sent to other processes and Ray workers."""

    actors: tuple[tuple[Any, ...], ...]  # by teacher, then replica
    directories: tuple[str, ...]  # of the teachers, in order
    timeout_seconds: float = 120.0  # per answer
    start_timeout_seconds: float = 120.0

    def of(self, numbers: Iterable[int]) -> Pool:
        """Return the pool of the teachers of these numbers, in this order."""
        chosen = [*numbers]
        return replace(
            self,
            actors=tuple(self.actors[number] for number in chosen),
            directories=tuple(self.directories[number] for number in chosen),
        )


@dataclass
class Attempt:
    """A request to one replica of a teacher."""

    replica: int
    ref: Any
    last: bool  # no other replica is left to ask: Ray sends it again if the teacher restarts
    deadline: float = 0.0  # of time.monotonic(); set while a caller waits for the answer
    killed: bool = False  # the teacher did not answer in time and is started afresh


@dataclass
class Request:
    """A submitted batch, with the request to each teacher."""

    inputs: Inputs
    attempts: list[Attempt]


class ActorEnsemble(Ensemble):
    """Ensemble of teachers in actors. ``start_pool`` creates one that owns its actors,
    ``attach_ensemble`` one that does not.

    ``on_event(kind, **fields)``, such as a journal's ``event``, is called when a teacher is
    replaced.
    """

    def __init__(self, pool: Pool, *, owner: bool = False) -> None:
        self.handles = pool
        self.replacements = 0
        self._stats: dict[str, float] = {}
        self.on_event: Callable[..., object] | None = None
        self._owner = owner
        self._lost = False  # a teacher is, so that not all answers will come
        self._caller = uuid.uuid4().hex
        self._turns = [itertools.cycle(range(len(actors))) for actors in pool.actors]
        self._open: list[Any] = []  # references of requests that may be unanswered

    @property
    def size(self) -> int:
        return len(self.handles.directories)

    @property
    def stats(self) -> Mapping[str, float]:
        """Seconds of the slowest forward pass of the last batch, and figures of the teachers."""
        return self._stats

    def submit(self, batch: Mapping[str, object]) -> Request:
        """Send the batch to every teacher and return at once."""
        inputs = packed_inputs(batch)
        return Request(inputs, [self._sent(inputs, teacher) for teacher in range(self.size)])

    def gather(self, handle: Request) -> Tensor:
        """Return the teachers' logits. ``-> [M, B, ..., C]``, fp32.

        Every teacher has its own deadline, independent of failures of others. Raises
        ``ClusterError`` for a lost teacher.
        """
        for attempt in handle.attempts:
            attempt.deadline = time.monotonic() + self.handles.timeout_seconds
        answers: dict[int, Answered] = {}
        while len(answers) < self.size:
            waiting = {n: a for n, a in enumerate(handle.attempts) if n not in answers}
            patience = min(attempt.deadline for attempt in waiting.values()) - time.monotonic()
            refs = [attempt.ref for attempt in waiting.values()]
            ready, _ = ray.wait(refs, num_returns=len(refs), timeout=max(patience, 0.0))
            for teacher, attempt in waiting.items():
                if attempt.ref in ready:
                    answered = self._collect(teacher, handle, attempt)
                    if answered is not None:
                        answers[teacher] = answered
                elif time.monotonic() >= attempt.deadline:
                    self._replace(teacher, handle, attempt)
        self._open = [ref for ref in self._open if ref not in {a.ref for a in handle.attempts}]
        self._stats = {
            "time/teacher_busy_seconds": max(seconds for _, seconds, _ in answers.values())
        }
        self._stats |= numbered({n: figures for n, (_, _, figures) in answers.items()})
        arrays = [answers[teacher][0] for teacher in range(self.size)]
        tensors = [torch.tensor(array, dtype=torch.float32) for array in arrays]
        return stacked(tensors, own_tokens=OWN_TOKENS in handle.inputs)

    def health(self) -> list[int]:
        """Return the process id of each actor.

        Raises ``ClusterError`` for one that has not started in time.
        """
        limit = self.handles.start_timeout_seconds
        pings = [
            (teacher, actor.health.options(concurrency_group="health", max_task_retries=-1))
            for teacher, actors in enumerate(self.handles.actors)
            for actor in actors
        ]
        refs = [(teacher, ping.remote()) for teacher, ping in pings]
        deadline = time.monotonic() + limit
        pids = []
        for teacher, ref in refs:
            try:
                pids.append(int(ray.get(ref, timeout=max(deadline - time.monotonic(), 0.0))))
            except GetTimeoutError:
                reason = (
                    f"has not started after {limit:g} s (distillation.start_timeout_seconds); "
                    f"free in the cluster: {free_resources()}"
                )
                raise self._lost_error(teacher, reason) from None
            except RayActorError as error:
                raise self._lost_error(teacher, f"cannot load: {cause_of(error)}") from None
        return pids

    def close(self) -> None:
        """Stop the teachers if this process started them."""
        if self._owner and ray.is_initialized():
            # Batches that were sent ahead and are not read: Ray calls a killed answer a failure.
            if self._open and not self._lost:
                ray.wait(self._open, num_returns=len(self._open), timeout=_LAST_SECONDS)
            for actor in itertools.chain(*self.handles.actors):
                ray.kill(actor, no_restart=True)
        self._owner = False

    def __reduce__(self) -> tuple[object, ...]:
        return attach_ensemble, (self.handles,)

    def _sent(self, inputs: Inputs, teacher: int, before: Attempt | None = None) -> Attempt:
        """Send a request to the next replica, after the failure of ``before`` if it is given."""
        actors = self.handles.actors[teacher]
        replica = next(self._turns[teacher])
        if before is not None and replica == before.replica:
            replica = next(self._turns[teacher])
        last = before is not None or len(actors) == 1
        # Where another replica is left, a dead one fails at once instead of after its restart.
        call = actors[replica].logits.options(max_task_retries=_RETRIES if last else 0)
        ref = call.remote(inputs, self._caller)
        self._open.append(ref)
        return Attempt(replica, ref, last, time.monotonic() + self.handles.timeout_seconds)

    def _collect(self, teacher: int, handle: Request, attempt: Attempt) -> Answered | None:
        """Return a finished answer, or None if it failed and the request was sent again."""
        try:
            answered: Answered = ray.get(attempt.ref, timeout=self.handles.timeout_seconds)
            return answered
        except RayTaskError as error:
            raise self._remote_error(teacher, error) from error
        except GetTimeoutError:  # ready, but its data does not arrive
            self._replace(teacher, handle, attempt)
        except (RayActorError, ObjectLostError) as error:
            if attempt.last:
                cause = cause_of(error) if isinstance(error, RayActorError) else str(error)
                raise self._lost_error(teacher, f"is gone for good: {cause}") from error
            handle.attempts[teacher] = self._sent(handle.inputs, teacher, attempt)
        return None

    def _replace(self, teacher: int, handle: Request, attempt: Attempt) -> None:
        """Kill a late teacher, whose open requests Ray sends again once it has restarted; another
        replica gets this request. Raises ``ClusterError`` if it was killed for it before.
        """
        if attempt.killed:
            raise self._lost_error(teacher, "was replaced and did not answer again")
        seconds = self.handles.timeout_seconds
        logger.warning("%s did not answer within %g s; replacing it", self._name(teacher), seconds)
        if self.on_event is not None:
            places = [self.handles.directories[teacher]]
            self.on_event("teacher_replaced", teachers=[teacher], places=places)
        self.replacements += 1
        ray.kill(self.handles.actors[teacher][attempt.replica], no_restart=False)
        if attempt.last:
            attempt.killed = True
            grace = seconds + self.handles.start_timeout_seconds
            attempt.deadline = time.monotonic() + grace
        else:
            handle.attempts[teacher] = self._sent(handle.inputs, teacher, attempt)

    def _name(self, teacher: int) -> str:
        directories = self.handles.directories
        return f"teacher {teacher} of {len(directories)} ({directories[teacher]})"

    def _remote_error(self, teacher: int, error: RayTaskError) -> RoadError:
        cause = error.cause
        kind = type(cause) if isinstance(cause, RoadError) else ClusterError
        return kind(f"{self._name(teacher)}: {cause}\n{_KEPT}")

    def _lost_error(self, teacher: int, reason: str) -> ClusterError:
        self._lost = True
        return ClusterError(
            f"{self._name(teacher)} {reason}\n"
            "  allowed: all teachers; never the mean of the rest\n"
            "  fix: check that the directory loads and that its machine has memory; "
            f"raise distillation.timeout_seconds if it is slow\n{_KEPT}"
        )


def attach_ensemble(handles: Pool) -> ActorEnsemble:
    """Return the ensemble of teachers that another process started; closing it does not
    stop them.
    """
    return ActorEnsemble(handles)


def cause_of(error: RayActorError) -> str:
    """Return the message of the constructor's error, without Ray's remote traceback."""
    messages = re.findall(
        r"^road_ray\.errors\.\w+: (.*)", str(error), flags=re.DOTALL | re.MULTILINE
    )
    return messages[-1].strip() if messages else str(error).strip()
