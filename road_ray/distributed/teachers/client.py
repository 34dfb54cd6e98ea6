"""Client of teachers in actors: bounded requests in flight, order kept, a deadline on every wait.

A forward pass is pure, so a request can be sent again. The request of a teacher that dies goes to
another replica, or to the actor once Ray has restarted it; ``answer_deadline.py`` decides what
becomes of a late one. A teacher that stays unavailable stops the run, or is dropped with a warning
if ``on_lost`` is drop; the remaining teachers are never averaged silently.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import ray
import torch
from ray.exceptions import (
    GetTimeoutError,
    ObjectLostError,
    RayActorError,
    RayTaskError,
)
from torch import Tensor

from road_ray.distillation.ensemble.protocol import OWN_TOKENS, Ensemble, numbered, stacked
from road_ray.distributed.placement import free_resources
from road_ray.distributed.teachers.actor import packed_inputs
from road_ray.distributed.teachers.answer_deadline import ReplicaRequest
from road_ray.distributed.teachers.replicas import Pool, Replicas, cause_of, ping
from road_ray.distributed.teachers.request_batcher import Answers, Inputs, Stats
from road_ray.errors import ClusterError, RoadError

logger = logging.getLogger(__name__)

Answered = tuple[Answers, float, list[Stats]]

_LAST_SECONDS = 10.0  # that the end of a run waits for answers that nobody reads
_KEPT = "  kept: checkpoints and the journal; to resume, run the same command"


@dataclass
class Request:
    """A submitted batch, with its request to each group of replicas."""

    inputs: Inputs
    attempts: dict[int, ReplicaRequest] = field(default_factory=dict)


class ActorEnsemble(Ensemble):
    """Ensemble of teachers in actors. ``start_pool`` creates one that owns its actors,
    ``attach_ensemble`` one that does not, and ``shared_ensemble`` one that holds a lease on them.

    ``on_event(kind, **fields)``, such as a journal's ``event``, is called when a teacher is
    replaced or dropped.
    """

    def __init__(
        self, pool: Pool, *, owner: bool = False, release: Callable[[], None] | None = None
    ) -> None:
        self.handles = pool
        self.replacements = 0
        self.dropped: tuple[int, ...] = ()  # indices of teachers that no longer answer
        self._stats: dict[str, float] = {}
        self.on_event: Callable[..., object] | None = None
        self._owner, self._release = owner, release
        self._lost = False  # a teacher is, so that not all answers will come
        caller = uuid.uuid4().hex
        self._groups = [Replicas(actors, pool, caller) for actors in pool.actors]

    @property
    def size(self) -> int:
        """Return the number of teachers that are not dropped."""
        return len(self.handles.directories) - len(self.dropped)

    @property
    def stats(self) -> Mapping[str, float]:
        """Seconds of the slowest forward pass of the last batch, and dropped teachers if any."""
        return self._stats

    def submit(self, batch: Mapping[str, object]) -> Request:
        """Send the batch to every teacher. Blocks only while too many requests are in flight."""
        request = Request(packed_inputs(batch))
        for group in range(len(self._groups)):
            if not self._is_dropped(group):
                self._send(group, request, ReplicaRequest(0, None))
        return request

    def gather(self, handle: Request) -> Tensor:
        """Return the teachers' logits. ``-> [M, B, ..., C]``, fp32.

        Every teacher has its own deadline, independent of failures of others. Raises
        ``ClusterError`` for a lost teacher.
        """
        for attempt in handle.attempts.values():
            attempt.extend(self.handles.timeout_seconds)
        answers: dict[int, Answered] = {}
        while waiting := self._unanswered(handle, answers):
            patience = min(attempt.deadline for attempt in waiting.values()) - time.monotonic()
            refs = [attempt.ref for attempt in waiting.values()]
            ready, _ = ray.wait(refs, num_returns=len(refs), timeout=max(patience, 0.0))
            for group, attempt in waiting.items():
                if attempt.ref in ready:
                    answered = self._collect(group, handle, attempt)
                    if answered is not None:
                        answers[group] = answered
                elif attempt.is_late:
                    self._handle_missed_deadline(group, handle, attempt)
        if not answers:
            raise ClusterError(f"no teacher is left of {len(self.handles.directories)}\n{_KEPT}")
        self._stats = {
            "time/teacher_busy_seconds": max(seconds for _, seconds, _ in answers.values())
        }
        for group, (_, _, figures) in answers.items():
            self._stats |= numbered(dict(zip(self.handles.members(group), figures, strict=True)))
        if self.dropped:
            self._stats["teachers/dropped"] = float(len(self.dropped))
        arrays = [array for group in sorted(answers) for array in answers[group][0]]
        tensors = [torch.tensor(array, dtype=torch.float32) for array in arrays]
        return stacked(tensors, own_tokens=OWN_TOKENS in handle.inputs)

    def health(self) -> list[int]:
        """Return the process id of each actor.

        Raises ``ClusterError`` for one that has not started in time.
        """
        limit = self.handles.start_timeout_seconds
        pings = [
            (group, ping(actor))
            for group, replicas in enumerate(self._groups)
            for actor in replicas.actors
        ]
        deadline = time.monotonic() + limit
        pids = []
        for group, ref in pings:
            try:
                pids.append(int(ray.get(ref, timeout=max(deadline - time.monotonic(), 0.0))))
            except GetTimeoutError:
                reason = (
                    f"has not started after {limit:g} s (distillation.start_timeout_seconds); "
                    f"free in the cluster: {free_resources()}"
                )
                raise self._lost_error(group, reason) from None
            except RayActorError as error:
                raise self._lost_error(group, f"cannot load: {cause_of(error)}") from None
        return pids

    def close(self) -> None:
        """Stop the teachers if this process started them, and release shared ones."""
        if self._owner and ray.is_initialized():
            # Batches that were sent ahead and are not read: Ray calls a killed answer a failure.
            unread = [ref for replicas in self._groups for ref in replicas.unanswered()]
            if unread and not self._lost:
                ray.wait(unread, num_returns=len(unread), timeout=_LAST_SECONDS)
            for replicas in self._groups:
                for actor in replicas.actors:
                    ray.kill(actor, no_restart=True)
        self._owner = False
        if self._release is not None:
            self._release()
        self._release = None

    def __reduce__(self) -> tuple[object, ...]:
        return attach_ensemble, (self.handles,)

    def _unanswered(
        self, handle: Request, answers: Mapping[int, object]
    ) -> dict[int, ReplicaRequest]:
        """Return the requests without an answer, after resending those of replicas that
        went down.
        """
        open_ = [group for group in handle.attempts if group not in answers]
        for group in open_:
            replicas, attempt = self._groups[group], handle.attempts[group]
            if replicas.is_down(attempt.replica) and replicas.has_others(attempt.replica):
                self._send(group, handle, attempt)
        return {group: handle.attempts[group] for group in open_ if not self._is_dropped(group)}

    def _send(
        self, group: int, request: Request, attempt: ReplicaRequest, *, avoid: int | None = None
    ) -> None:
        try:
            attempt.replica, attempt.ref = self._groups[group].send(request.inputs, avoid)
            request.attempts[group] = attempt
        except TimeoutError:
            self._handle_loss(group, "takes no more requests")

    def _collect(self, group: int, handle: Request, attempt: ReplicaRequest) -> Answered | None:
        """Return a finished answer, or None if it failed and the request was sent again."""
        replicas = self._groups[group]
        try:
            answered: Answered = ray.get(attempt.ref, timeout=self.handles.timeout_seconds)
            return answered
        except RayTaskError as error:
            raise self._remote_error(group, error) from error
        except GetTimeoutError:  # ready, but its data does not arrive
            self._handle_missed_deadline(group, handle, attempt)
        except (RayActorError, ObjectLostError) as error:
            if isinstance(error, RayActorError) and replicas.is_gone(attempt.replica):
                reason = f"is gone for good: {cause_of(error)}"
            else:
                replicas.went_down(attempt.replica)
                reason = f"cannot be reached: {error}"
            if attempt.after_failure(replicas) == "give up":
                self._handle_loss(group, reason)
            else:
                self._resend(group, handle, attempt)
        return None

    def _handle_missed_deadline(self, group: int, handle: Request, attempt: ReplicaRequest) -> None:
        """Wait once more, replace the replica or give up the teacher."""
        replicas, seconds = self._groups[group], self.handles.timeout_seconds
        action = attempt.after_deadline(replicas)
        if action == "give up":
            self._handle_loss(group, "was replaced and did not answer again")
        elif action == "wait":
            logger.warning("%s is slow; waiting once more", self._describe(group))
            if replicas.has_others(attempt.replica):
                self._resend(group, handle, attempt)
            attempt.extend(seconds)
        else:
            logger.warning(
                "%s did not answer within %g s; replacing it", self._describe(group), seconds
            )
            self._emit("teacher_replaced", group)
            self.replacements += 1
            replicas.replace(attempt.replica)
            self._resend(group, handle, attempt)

    def _resend(self, group: int, handle: Request, attempt: ReplicaRequest) -> None:
        """Send a request again, preferably to another replica. A restarting one gets time
        to load.
        """
        self._send(group, handle, attempt, avoid=attempt.replica)
        down = self._groups[group].is_down(attempt.replica)
        grace = self.handles.start_timeout_seconds if down else 0.0
        attempt.extend(self.handles.timeout_seconds + grace)

    def _handle_loss(self, group: int, reason: str) -> None:
        """Apply ``on_lost`` to an unavailable teacher: raise an error, or continue without it."""
        if self.handles.on_lost == "stop":
            raise self._lost_error(group, reason)
        members = self.handles.members(group)
        self.dropped = tuple(sorted({*self.dropped, *members}))
        logger.warning(
            "%s %s: DROPPED; %d teachers are left", self._describe(group), reason, self.size
        )
        self._emit("teacher_dropped", group, reason=reason, left=self.size)

    def _is_dropped(self, group: int) -> bool:
        return self.handles.members(group)[0] in self.dropped

    def _emit(self, kind: str, group: int, **fields: object) -> None:
        if self.on_event is not None:
            places = [self.handles.directories[member] for member in self.handles.members(group)]
            self.on_event(kind, teachers=[*self.handles.members(group)], places=places, **fields)

    def _describe(self, group: int) -> str:
        members = self.handles.members(group)
        places = ", ".join(self.handles.directories[member] for member in members)
        which, most = ", ".join(map(str, members)), len(self.handles.directories)
        return f"teacher {which} of {most} ({places})"

    def _remote_error(self, group: int, error: RayTaskError) -> RoadError:
        cause = error.cause
        kind = type(cause) if isinstance(cause, RoadError) else ClusterError
        return kind(f"{self._describe(group)}: {cause}\n{_KEPT}")

    def _lost_error(self, group: int, reason: str) -> ClusterError:
        self._lost = True
        return ClusterError(
            f"{self._describe(group)} {reason}\n"
            "  allowed: all teachers; never the mean of the rest, "
            "unless distillation.on_lost is drop\n"
            "  fix: check that the directory loads and that its machine has memory; "
            f"raise timeout_seconds if it is slow\n{_KEPT}"
        )


def attach_ensemble(handles: Pool) -> ActorEnsemble:
    """Return the ensemble of teachers that another process started; closing it does not
    stop them.
    """
    return ActorEnsemble(handles)
