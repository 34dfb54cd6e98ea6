"""The ensemble in actors, seen from whoever asks it: bounded in flight, order kept, no wait without
a deadline.

A forward pass is pure, so asking twice is safe. A teacher that dies is asked again, at another
replica or once Ray has started it again. One that is late is asked elsewhere or replaced. One that
cannot be had stops the run, or is dropped with a word where that was declared; there is never a
silent mean of the rest.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ray
import torch
from ray.exceptions import (
    GetTimeoutError,
    ObjectLostError,
    RayActorError,
    RayTaskError,
)
from torch import Tensor

from road_ray.distillation.ensemble.base import Ensemble, stacked
from road_ray.distributed.placement import free_resources
from road_ray.distributed.teachers.actor import packed_inputs
from road_ray.distributed.teachers.replicas import Pool, Replicas, cause_of, ping
from road_ray.distributed.teachers.request_batcher import Answers, Inputs
from road_ray.errors import ClusterError, RoadError

logger = logging.getLogger(__name__)

_MOST_LATE = 2  # deadlines that a request may miss; at the next its teacher is lost
_MOST_UNREACHABLE = 4
_KEPT = "  kept: checkpoints and the journal as they are; the same command goes on from there"


@dataclass
class ReplicaRequest:
    """One request at one replica."""

    replica: int
    ref: Any
    deadline: float = 0.0  # set when somebody waits for it
    late: int = 0
    unreachable: int = 0
    replaced: bool = False  # its last missed deadline ended in a replacement


@dataclass
class Request:
    """A batch on its way: what was sent, and where to, by group of replicas."""

    inputs: Inputs
    asks: dict[int, ReplicaRequest] = field(default_factory=dict)


class ActorEnsemble(Ensemble):
    """Teachers in actors, asked all at once. Made by ``pool.start`` (which owns them),
    ``attach_ensemble`` or ``sharing.shared`` (which holds a lease on them).

    ``on_event(kind, **fields)``, such as a journal's ``event``, hears of teachers that were
    replaced or dropped.
    """

    def __init__(
        self, pool: Pool, *, owner: bool = False, release: Callable[[], None] | None = None
    ) -> None:
        self.handles = pool
        self.replacements = 0
        self.dropped: tuple[int, ...] = ()  # teachers that no longer answer, by their place
        self._stats: dict[str, float] = {}
        self.on_event: Callable[..., Any] | None = None
        self._owner, self._release = owner, release
        caller = uuid.uuid4().hex
        self._groups = [Replicas(actors, pool, caller) for actors in pool.actors]

    @property
    def size(self) -> int:
        """How many teachers answer."""
        return len(self.handles.directories) - len(self.dropped)

    @property
    def stats(self) -> Mapping[str, float]:
        """Seconds of the slowest forward pass of the last batch, and dropped teachers if any."""
        return self._stats

    def submit(self, batch: Mapping[str, Any]) -> Request:
        """Send the batch to every teacher. Waits only while too many requests are on their way."""
        request = Request(packed_inputs(batch))
        for group in range(len(self._groups)):
            if not self._is_dropped(group):
                self._send(group, request, ReplicaRequest(0, None))
        return request

    def gather(self, handle: Request) -> Tensor:
        """The teachers' logits. ``-> [M, B, ..., C]``, fp32. ``ClusterError`` names a lost one.

        Every teacher has a deadline of its own, which the trouble of another does not shorten.
        """
        for ask in handle.asks.values():
            ask.deadline = time.monotonic() + self.handles.timeout_seconds
        answers: dict[int, tuple[Answers, float]] = {}
        while waiting := self._waiting(handle, answers):
            patience = min(ask.deadline for ask in waiting.values()) - time.monotonic()
            refs = [ask.ref for ask in waiting.values()]
            ready, _ = ray.wait(refs, num_returns=len(refs), timeout=max(patience, 0.0))
            for group, ask in waiting.items():
                if ask.ref in ready:
                    answered = self._taken(group, handle, ask)
                    if answered is not None:
                        answers[group] = answered
                elif time.monotonic() >= ask.deadline:
                    self._late(group, handle, ask)
        if not answers:
            raise ClusterError(f"no teacher is left of {len(self.handles.directories)}\n{_KEPT}")
        seconds = max(seconds for _, seconds in answers.values())
        self._stats = {"time/teacher_busy_seconds": seconds}
        if self.dropped:
            self._stats["teachers/dropped"] = float(len(self.dropped))
        arrays = [array for group in sorted(answers) for array in answers[group][0]]
        return stacked([torch.tensor(array, dtype=torch.float32) for array in arrays])

    def health(self) -> list[int]:
        """The process id of each actor. ``ClusterError`` names one that is not there in time."""
        limit = self.handles.start_timeout_seconds
        asked = [
            (group, ping(actor))
            for group, replicas in enumerate(self._groups)
            for actor in replicas.actors
        ]
        deadline = time.monotonic() + limit
        pids = []
        for group, ref in asked:
            try:
                pids.append(int(ray.get(ref, timeout=max(deadline - time.monotonic(), 0.0))))
            except GetTimeoutError:
                what = f"is not there after {limit:g} s; free in the cluster: {free_resources()}"
                raise self._lost(group, what) from None
            except RayActorError as error:
                raise self._lost(group, f"cannot load: {cause_of(error)}") from None
        return pids

    def close(self) -> None:
        """End the teachers, if this is the process that started them; give shared ones back."""
        if self._owner and ray.is_initialized():
            for replicas in self._groups:
                for actor in replicas.actors:
                    ray.kill(actor, no_restart=True)
        self._owner = False
        if self._release is not None:
            self._release()
        self._release = None

    def __reduce__(self) -> tuple[Any, ...]:
        return attach_ensemble, (self.handles,)

    def _waiting(self, handle: Request, answers: Mapping[int, Any]) -> dict[int, ReplicaRequest]:
        """Who still owes an answer; what lay with a replica that went down is sent elsewhere."""
        open_ = [group for group in handle.asks if group not in answers]
        for group in open_:
            replicas, ask = self._groups[group], handle.asks[group]
            if replicas.is_down(ask.replica) and replicas.has_others(ask.replica):
                self._send(group, handle, ask)
        return {group: handle.asks[group] for group in open_ if not self._is_dropped(group)}

    def _send(
        self, group: int, request: Request, ask: ReplicaRequest, *, avoid: int | None = None
    ) -> None:
        try:
            ask.replica, ask.ref = self._groups[group].send(request.inputs, avoid)
            request.asks[group] = ask
        except TimeoutError:
            self._lose(group, "takes no more requests")

    def _taken(
        self, group: int, handle: Request, ask: ReplicaRequest
    ) -> tuple[Answers, float] | None:
        """The answer that is there; None when it was an error and the request is sent again."""
        replicas = self._groups[group]
        try:
            answered: tuple[Answers, float] = ray.get(ask.ref, timeout=self.handles.timeout_seconds)
            return answered
        except RayTaskError as error:
            raise self._failed(group, error) from error
        except GetTimeoutError:  # it was there, and its bytes do not arrive
            self._late(group, handle, ask)
        except (RayActorError, ObjectLostError) as error:
            ask.unreachable += 1
            if isinstance(error, RayActorError) and replicas.is_gone(ask.replica):
                why = f"is gone for good: {cause_of(error)}"
            else:
                replicas.went_down(ask.replica)
                why = f"cannot be reached: {error}"
            if replicas.all_dead or ask.unreachable >= _MOST_UNREACHABLE:
                self._lose(group, why)
            else:
                self._again(group, handle, ask)
        return None

    def _late(self, group: int, handle: Request, ask: ReplicaRequest) -> None:
        """A missed deadline: wait once more for one that runs, replace one that does not."""
        replicas = self._groups[group]
        others = replicas.has_others(ask.replica)
        ask.late += 1
        if ask.late > _MOST_LATE or (ask.replaced and not others):
            self._lose(group, "was replaced and did not answer again")
            return
        if ask.late == 1 and replicas.answers(ask.replica):
            logger.warning("%s is slow; waiting once more", self._named(group))
            if others:
                self._again(group, handle, ask)
            ask.deadline = time.monotonic() + self.handles.timeout_seconds
            return
        seconds = self.handles.timeout_seconds
        logger.warning("%s did not answer within %g s; replacing it", self._named(group), seconds)
        self._tell("teacher_replaced", group)
        self.replacements += 1
        replicas.replace(ask.replica)
        ask.replaced = True
        self._again(group, handle, ask)

    def _again(self, group: int, handle: Request, ask: ReplicaRequest) -> None:
        """Ask once more, rather another replica; one that starts anew has to load its model."""
        self._send(group, handle, ask, avoid=ask.replica)
        down = self._groups[group].is_down(ask.replica)
        grace = self.handles.start_timeout_seconds if down else 0.0
        ask.deadline = time.monotonic() + self.handles.timeout_seconds + grace

    def _lose(self, group: int, what: str) -> None:
        """The declared policy for teachers that cannot be had: an error, or go on without them."""
        if self.handles.on_lost == "stop":
            raise self._lost(group, what)
        members = self.handles.members(group)
        self.dropped = tuple(sorted({*self.dropped, *members}))
        logger.warning("%s %s: DROPPED; %d teachers are left", self._named(group), what, self.size)
        self._tell("teacher_dropped", group, reason=what, left=self.size)

    def _is_dropped(self, group: int) -> bool:
        return self.handles.members(group)[0] in self.dropped

    def _tell(self, kind: str, group: int, **fields: Any) -> None:
        if self.on_event is not None:
            places = [self.handles.directories[member] for member in self.handles.members(group)]
            self.on_event(kind, teachers=[*self.handles.members(group)], places=places, **fields)

    def _named(self, group: int) -> str:
        members = self.handles.members(group)
        places = ", ".join(self.handles.directories[member] for member in members)
        which, most = ", ".join(map(str, members)), len(self.handles.directories)
        return f"teacher {which} of {most} ({places})"

    def _failed(self, group: int, error: RayTaskError) -> RoadError:
        cause = error.cause
        kind = type(cause) if isinstance(cause, RoadError) else ClusterError
        return kind(f"{self._named(group)}: {cause}\n{_KEPT}")

    def _lost(self, group: int, what: str) -> ClusterError:
        return ClusterError(
            f"{self._named(group)} {what}\n"
            "  allowed: all teachers; never the mean of the rest, "
            "unless distillation.on_lost is drop\n"
            "  fix: see that the directory loads and that its machine has memory; "
            f"raise timeout_seconds if it is only slow\n{_KEPT}"
        )


def attach_ensemble(handles: Pool) -> ActorEnsemble:
    """The ensemble of teachers that another process started; closing it leaves them alive."""
    return ActorEnsemble(handles)
