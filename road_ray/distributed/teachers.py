"""Actors that host a teacher, and the ensemble of them as a student sees it: order kept, a deadline
on every wait.

A forward pass is pure, so a request can be sent again: Ray restarts a teacher that dies and sends
its open requests again. A teacher that does not answer in time is killed once, so that Ray starts
it afresh. One that does not answer after that stops the run: the remaining teachers are never
averaged silently.

Token ids are sent as int32, masks and segments as int8; texts to teachers with another tokenizer.
Logits of classes and spans are sent as float16 (relative rounding 2^-11; two logits closer than
that may swap order), numbers of a regression as float32.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
from numpy.typing import NDArray
from ray.exceptions import RayError, RayTaskError
from torch import Tensor

from road_ray.data.batching import INPUTS
from road_ray.data.task_and_dataset import Task
from road_ray.distillation.ensemble import Ensemble
from road_ray.distillation.stored_ensemble import rounded
from road_ray.distillation.teacher import Teacher, inputs_of
from road_ray.distillation.teacher_directory import PLAIN, TeacherOptions
from road_ray.distributed.batch_inference import InferenceActor
from road_ray.distributed.connection import driver_environment, environment_for_workers
from road_ray.distributed.room import room, scale_up_seconds
from road_ray.errors import ClusterError, RoadError, first_line

Request = list[tuple[Any, Any]]
"""A submitted batch: the actor of each teacher that was asked, and the reference of its answer."""
Inputs = Mapping[str, NDArray[np.generic]]
Answer = tuple[NDArray[np.generic], float, Mapping[str, float]]
"""Packed logits ``[B, ..., C]``, seconds of the forward pass, figures of the teacher."""
logger = logging.getLogger(__name__)
_KEPT = "  kept: checkpoints and the journal; to resume, run the same command"
_LAST_SECONDS = 10.0  # that the end of a run waits for answers that nobody reads
_RETRIES = 3  # of Ray, of a request whose teacher dies
_BYTES_IN_A_CALL = 100_000  # in half the time of a put; above it, Ray makes a copy for each call


def hosted(
    environment: tuple[str, Mapping[str, str]],
    directory: str,
    task: Task,
    options: TeacherOptions,
    device: str,
    num_threads: int,
) -> Callable[[Inputs], Answer]:
    """Load a teacher, and return the function by which its actor answers a batch."""
    torch.set_num_threads(num_threads)
    with driver_environment(environment):  # whose relative paths a map of labels has
        teacher = Teacher(directory, task, options, device)

    def answer(inputs: Inputs) -> Answer:
        began = time.perf_counter()
        tensors: dict[str, Any] = {
            name: array if name == "texts" else torch.tensor(array)
            for name, array in inputs.items()
        }
        logits = rounded(teacher.logits(**tensors), teacher.task.kind)
        return logits, time.perf_counter() - began, teacher.stats

    return answer


def packed_inputs(batch: Mapping[str, object]) -> Inputs:
    """Return the inputs of a teacher from a batch, packed for transfer. ``[B, L]`` each."""
    small = dict.fromkeys(INPUTS, torch.int8) | {"input_ids": torch.int32}
    return {
        name: value.detach().cpu().to(small.get(name, torch.int32)).numpy()
        if isinstance(value, torch.Tensor)
        else value
        for name, value in inputs_of(batch).items()
    }


class ActorEnsemble(Ensemble):
    """Ensemble of teachers in actors. ``start_teachers`` creates one that owns its actors and stops
    them when it is closed; a copy, which may be sent to other processes, does not.

    ``actors`` are the replicas of each teacher, ``directories`` the teachers in order, and
    ``timeout_seconds`` limits each answer. ``on_event(kind, **fields)``, such as a journal's
    ``event``, is called when a teacher is replaced.
    """

    def __init__(
        self,
        actors: Iterable[tuple[Any, ...]],
        directories: Iterable[str],
        timeout_seconds: float = 120.0,
        start_timeout_seconds: float = 300.0,
        *,
        owner: bool = False,
    ) -> None:
        self.actors, self.directories = tuple(actors), tuple(directories)
        self.timeout_seconds = timeout_seconds
        self.start_timeout_seconds = start_timeout_seconds
        self.on_event: Callable[..., object] | None = None
        self.size = len(self.directories)
        self._owner, self._cluster = owner, _cluster()
        self._turns = [itertools.cycle(replicas) for replicas in self.actors]
        self._open: set[Any] = set()  # references of requests that may be unanswered

    def part(self, numbers: Iterable[int]) -> ActorEnsemble:
        """Return the ensemble of the teachers of these numbers, which this one still owns."""
        chosen = [(self.actors[number], self.directories[number]) for number in numbers]
        actors, directories = zip(*chosen, strict=True)
        return ActorEnsemble(actors, directories, self.timeout_seconds, self.start_timeout_seconds)

    def submit(self, batch: Mapping[str, object]) -> Request:
        """Send the batch to every teacher, to its replicas in turn, and return at once."""
        if _cluster() != self._cluster:
            raise ClusterError(
                "the ensemble is closed, or its cluster has ended with another one that started it"
                "\n  fix: start it again, and close the first ensemble of a process last"
            )
        sent: Any = packed_inputs(batch)
        if "texts" in sent or sum(array.nbytes for array in sent.values()) > _BYTES_IN_A_CALL:
            sent = ray.put(sent)  # once for all teachers; the size of texts is not looked at
        asked = [(actor, actor.compute.remote(sent)) for actor in map(next, self._turns)]
        self._open.update(ref for _, ref in asked)
        return asked

    def gather(self, handle: Request) -> Tensor:
        """Return the teachers' logits. ``-> [M, B, ..., C]``, fp32.

        Raises ``ClusterError`` for a lost teacher.
        """
        refs, seconds = [ref for _, ref in handle], self.timeout_seconds
        if late := ray.wait(refs, num_returns=len(refs), timeout=seconds)[1]:
            for number in map(refs.index, late):
                self._replace(number, handle[number][0])
            seconds_anew = seconds + self.start_timeout_seconds
            if late := ray.wait(late, num_returns=len(late), timeout=seconds_anew)[1]:
                reason = "was replaced and did not answer again"
                raise self._lost_error(refs.index(late[0]), reason)
        answers = [self._answer(number, ref, seconds) for number, ref in enumerate(refs)]
        self._open -= set(refs)
        logits, busy, figures = zip(*answers, strict=True)
        tensors = [torch.tensor(array, dtype=torch.float32) for array in logits]
        # Those of the slowest forward pass, and figures of the teachers.
        return self._joined(tensors, figures, **{"time/teacher_busy_seconds": max(busy)})

    def health(self) -> list[int]:
        """Return the process id of each actor.

        Raises ``ClusterError`` for one that has not started in time.
        """
        refs = [(n, actor.start.remote()) for n, pool in enumerate(self.actors) for actor in pool]
        return [self._answer(number, ref, self.start_timeout_seconds) for number, ref in refs]

    def close(self) -> None:
        """Stop the teachers if this process started them."""
        if self._owner and _cluster() == self._cluster:
            # Batches that were sent ahead and are not read: Ray calls a killed answer a failure.
            if self._open:
                ray.wait([*self._open], num_returns=len(self._open), timeout=_LAST_SECONDS)
            for actor in itertools.chain(*self.actors):
                ray.kill(actor, no_restart=True)
            self._cluster = ""
        self._owner = False

    def __reduce__(self) -> tuple[object, ...]:
        limits = self.timeout_seconds, self.start_timeout_seconds
        return ActorEnsemble, (self.actors, self.directories, *limits)

    def _answer(self, teacher: int, ref: Any, seconds: float) -> Any:
        try:
            return ray.get(ref, timeout=seconds)
        except RayTaskError as error:
            cause = error.cause
            kind = type(cause) if isinstance(cause, RoadError) else ClusterError
            raise kind(f"{self._name(teacher)}: {cause}\n{_KEPT}") from error
        except RayError as error:  # of the actor, or of an answer that is late or lost
            reason = f"does not answer, with {seconds:g} s of time: {first_line(error)}"
            raise self._lost_error(teacher, reason) from error

    def _replace(self, teacher: int, actor: Any) -> None:
        """Kill a late teacher; Ray sends its open requests again once it has restarted."""
        seconds = self.timeout_seconds
        logger.warning("%s did not answer within %g s; replacing it", self._name(teacher), seconds)
        if self.on_event is not None:
            place = self.directories[teacher]
            self.on_event("teacher_replaced", teachers=[teacher], places=[place])
        ray.kill(actor, no_restart=False)

    def _name(self, teacher: int) -> str:
        return f"teacher {teacher} of {self.size} ({self.directories[teacher]})"

    def _lost_error(self, teacher: int, reason: str) -> ClusterError:
        return ClusterError(
            f"{self._name(teacher)} {reason}\n"
            "  allowed: all teachers; never the mean of the rest\n"
            "  fix: check that the directory loads and that its machine has memory; "
            f"raise distillation.timeout_seconds if it is slow\n{_KEPT}"
        )


def _cluster() -> str:
    """Return the job of this process in the cluster that it uses, empty without one."""
    return ray.get_runtime_context().get_job_id() if ray.is_initialized() else ""


def start_teachers(
    directories: Sequence[str | Path],
    task: Task,
    *,
    teacher: TeacherOptions = PLAIN,
    replicas: int = 1,
    num_cpus: float | None = None,
    num_gpus: float = 0.0,
    resources: Mapping[str, float] | None = None,
    beside: int = 0,
    other_teachers: int = 0,
    timeout_seconds: float = 120.0,
    start_timeout_seconds: float = 300.0,
) -> ActorEnsemble:
    """Start ``replicas`` actors per directory, owned by this process, and wait until they are
    loaded. More replicas serve more requests per second.

    Each has ``num_cpus``, ``num_gpus`` and the custom ``resources``. Without ``num_cpus`` it has
    one core, or a share of half the cluster that leaves one core for each of ``beside`` workers,
    with ``other_teachers`` in other pools of the same run. ``timeout_seconds`` limits an answer.

    Raises ``ClusterError`` at once if the cluster has no room, later if an actor does not load.
    """
    count = len(directories) * replicas
    if num_cpus is None:
        cores = ray.cluster_resources().get("CPU", 0.0)
        spare = max(0.0, min(cores / 2, cores - beside))
        num_cpus = min(1.0, math.floor(100 * spare / (count + other_teachers)) / 100)
        num_cpus = 1.0 if scale_up_seconds() else num_cpus  # a growing cluster may be empty still
    needed = {"CPU": num_cpus, "GPU": num_gpus, **(resources or {})}
    remedy = ", or keep them in this process (distillation.host: process)"
    room("teachers", count + other_teachers, needed, remedy=remedy)
    if scale_up_seconds():  # new machines may come later than teachers have to load
        room("teachers", count, needed, free=True)
    actor = ray.remote(InferenceActor).options(
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        resources=dict(resources or {}),
        max_restarts=-1,
        max_task_retries=_RETRIES,
        # The loss of one machine must not lose all replicas of a teacher.
        scheduling_strategy="DEFAULT" if replicas == 1 else "SPREAD",
    )
    environment, paths = environment_for_workers(), map(Path, directories)
    places = [str(path.resolve() if path.is_dir() else path) for path in paths]
    how = task, teacher, "cuda" if num_gpus else "cpu", max(1, int(num_cpus))
    actors = [
        tuple(actor.remote(hosted, environment, place, *how) for _ in range(replicas))
        for place in places
    ]
    ensemble = ActorEnsemble(actors, places, timeout_seconds, start_timeout_seconds, owner=True)
    try:
        ensemble.health()
    except BaseException:
        ensemble.close()
        raise
    return ensemble
