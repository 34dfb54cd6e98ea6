"""Teachers in Ray actors, one each: the same ensemble as ``distillation/ensemble.py``, on other
cores or machines.

A teacher that dies is started again by Ray and asked again; its forward pass is pure, so asking
twice is safe. A teacher that hangs is replaced once. One that cannot be had stops the run: there is
never a silent mean of the rest.

Token ids travel as int32. Logits of classes and spans travel as float16 (relative rounding 2^-11,
and two logits closer than that may swap their order); numbers of a regression travel as float32.
"""

from __future__ import annotations

import logging
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
from numpy.typing import NDArray
from ray.exceptions import (
    ActorUnavailableError,
    GetTimeoutError,
    PendingCallsLimitExceeded,
    RayActorError,
    RayTaskError,
)
from torch import Tensor

from road_ray.data import catalog
from road_ray.data.specs import Regress, Task
from road_ray.distillation.ensemble import Teacher, inputs_of, stacked
from road_ray.distributed.placement import check_placement, core_share, free_resources
from road_ray.errors import CheckpointError, ClusterError, ConfigError, RoadError

logger = logging.getLogger(__name__)

MAX_PENDING_CALLS = 64  # of one caller to one teacher; more is back-pressure, not failure
_RETRY_SECONDS = 0.01
_KEPT = "  kept: checkpoints and the journal as they are; the same command goes on from there"


class TeacherActor:
    """One teacher behind one method; Ray can rebuild it from the arguments of its constructor."""

    def __init__(
        self,
        directory: str,
        task: str,
        num_threads: int,
        device: str = "cpu",
        label_map: Mapping[str, str] | None = None,
    ) -> None:
        torch.set_num_threads(num_threads)
        self._teacher = Teacher(directory, catalog.task(task), label_map=label_map, device=device)

    def logits(self, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """``[B, L] -> [B, C]`` or ``[B, 2, L]`` in float16; ``[B, 1]`` of regression in float32."""
        tensors = {name: torch.tensor(array) for name, array in inputs.items()}
        answer: NDArray[Any] = self._teacher.logits(**tensors).cpu().numpy()
        if isinstance(self._teacher.task.kind, Regress):
            return answer
        limit = float(np.finfo(np.float16).max)
        if np.abs(answer).max(initial=0.0) > limit:
            raise CheckpointError(
                f"{self._teacher.directory}: logits beyond {limit:g} do not fit float16\n"
                "  fix: distillation.host: process"
            )
        return answer.astype(np.float16)

    def health(self) -> int:
        """The process id, once the teacher is loaded; answered while requests are queued."""
        return os.getpid()


@dataclass(frozen=True)
class Pool:
    """What another process needs in order to ask the same teachers; can be sent to Ray workers."""

    actors: tuple[Any, ...]
    directories: tuple[str, ...]
    timeout_seconds: float
    start_timeout_seconds: float


@dataclass
class Request:
    """A batch on its way: what was sent, and one reference a teacher."""

    inputs: dict[str, NDArray[Any]]
    refs: list[Any] = field(default_factory=list)


class ActorEnsemble:
    """Teachers in actors, asked all at once. Made by ``start`` (which owns them) or ``attach``
    (which does not).
    """

    def __init__(self, pool: Pool, *, owner: bool = False) -> None:
        self.handles = pool
        self.replacements = 0
        self._owner = owner

    @property
    def size(self) -> int:
        return len(self.handles.actors)

    def submit(self, batch: Mapping[str, Any]) -> Request:
        """Send the batch to every teacher. Waits only while a teacher's queue is full."""
        request = Request({name: _packed(name, x) for name, x in inputs_of(batch).items()})
        request.refs = [self._send(index, request) for index in range(self.size)]
        return request

    def gather(self, handle: Request) -> Tensor:
        """The teachers' logits. ``-> [M, B, ..., C]``, fp32. ``ClusterError`` names a lost one."""
        deadline = time.monotonic() + self.handles.timeout_seconds
        return stacked([self._answer(index, handle, deadline) for index in range(self.size)])

    def health(self) -> list[int]:
        """The process id of each teacher. ``ClusterError`` names one that is not there in time."""
        asked = [a.health.options(concurrency_group="health").remote() for a in self.handles.actors]
        deadline = time.monotonic() + self.handles.start_timeout_seconds
        pids = []
        for index, ref in enumerate(asked):
            try:
                pids.append(int(ray.get(ref, timeout=max(deadline - time.monotonic(), 0.0))))
            except GetTimeoutError:
                raise self._lost(
                    index,
                    f"is not there after {self.handles.start_timeout_seconds:g} s; "
                    f"free in the cluster: {free_resources()}",
                ) from None
            except RayActorError as error:
                raise self._lost(index, f"cannot load: {_cause(error)}") from None
        return pids

    def close(self) -> None:
        """End the teachers, if this is the process that started them."""
        if self._owner and ray.is_initialized():
            for actor in self.handles.actors:
                ray.kill(actor, no_restart=True)
        self._owner = False

    def __enter__(self) -> ActorEnsemble:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return attach, (self.handles,)

    def _send(self, index: int, request: Request) -> Any:
        deadline = time.monotonic() + self.handles.timeout_seconds
        while True:
            try:
                return self.handles.actors[index].logits.remote(request.inputs)
            except PendingCallsLimitExceeded:
                if time.monotonic() > deadline:
                    raise self._lost(index, "takes no more requests") from None
                time.sleep(_RETRY_SECONDS)

    def _answer(self, index: int, request: Request, deadline: float) -> Tensor:
        again = False
        while True:
            wait = max(deadline - time.monotonic(), 0.0)
            try:
                answer = ray.get(request.refs[index], timeout=wait)
                return torch.tensor(answer, dtype=torch.float32)
            except RayTaskError as error:
                raise self._failed(index, error) from error
            except (GetTimeoutError, ActorUnavailableError) as error:
                if again:
                    raise self._lost(index, "was replaced and did not answer again") from error
                again = True
                if isinstance(error, GetTimeoutError):
                    self._replace(index)
                request.refs[index] = self._send(index, request)
                grace = self.handles.start_timeout_seconds  # it loads its model again
                deadline = time.monotonic() + self.handles.timeout_seconds + grace
            except RayActorError as error:
                raise self._lost(index, f"is gone for good: {_cause(error)}") from error

    def _replace(self, index: int) -> None:
        """Kill a teacher that hangs; Ray starts it again and repeats the calls that wait for it."""
        self.replacements += 1
        logger.warning(
            "teacher %d (%s) did not answer within %g s; replacing it",
            index,
            self.handles.directories[index],
            self.handles.timeout_seconds,
        )
        ray.kill(self.handles.actors[index], no_restart=False)

    def _failed(self, index: int, error: RayTaskError) -> RoadError:
        cause = error.cause
        kind = type(cause) if isinstance(cause, RoadError) else ClusterError
        return kind(f"teacher {index} ({self.handles.directories[index]}): {cause}\n{_KEPT}")

    def _lost(self, index: int, what: str) -> ClusterError:
        return ClusterError(
            f"teacher {index} of {self.size} ({self.handles.directories[index]}) {what}\n"
            "  allowed: all teachers, never the mean of the rest\n"
            "  fix: see that the directory loads and that its machine has memory; "
            f"raise timeout_seconds if it is only slow\n{_KEPT}"
        )


def attach(handles: Pool) -> ActorEnsemble:
    """The ensemble of teachers that another process started; closing it leaves them alive."""
    return ActorEnsemble(handles)


def start(
    directories: Sequence[str | Path],
    task: Task,
    *,
    num_cpus: float | None = None,
    num_gpus: float = 0.0,
    beside: int = 0,
    resources: Mapping[str, float] | None = None,
    label_map: Mapping[str, str] | None = None,
    timeout_seconds: float = 120.0,
    start_timeout_seconds: float = 120.0,
) -> ActorEnsemble:
    """One loaded actor a directory, in the connected cluster.

    Raises ``ClusterError`` at once when the cluster has no room, later when one does not load.
    ``num_cpus`` per teacher: by default one, or a share of half the cluster, and little enough that
    ``beside`` workers find a core each.
    """
    _check_times(timeout_seconds=timeout_seconds, start_timeout_seconds=start_timeout_seconds)
    if not directories:
        raise ConfigError("distillation.teachers is empty\n  allowed: at least one directory")
    if num_cpus is None:
        num_cpus = core_share(ray.cluster_resources().get("CPU", 0.0), len(directories), beside)
    check_placement(
        "teachers",
        len(directories),
        {"CPU": num_cpus, "GPU": num_gpus, **(resources or {})},
        remedy=", or keep them in this process (distillation.host: process)",
    )
    actor = ray.remote(
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        resources=dict(resources or {}),
        max_restarts=-1,
        max_task_retries=3,
        max_pending_calls=MAX_PENDING_CALLS,
        concurrency_groups={"health": 1},
    )(TeacherActor)
    places = [str(Path(d).resolve()) if Path(d).is_dir() else str(d) for d in directories]
    threads, device = max(1, int(num_cpus)), "cuda" if num_gpus else "cpu"
    names = None if label_map is None else dict(label_map)
    actors = tuple(actor.remote(place, task.name, threads, device, names) for place in places)
    pool = Pool(actors, tuple(places), timeout_seconds, start_timeout_seconds)
    ensemble = ActorEnsemble(pool, owner=True)
    try:
        ensemble.health()
    except BaseException:
        ensemble.close()
        raise
    return ensemble


def _packed(name: str, tensor: Tensor) -> NDArray[Any]:
    """Small integers for the wire: int32 ids, int8 masks and segments."""
    dtype = torch.int32 if name == "input_ids" else torch.int8
    array: NDArray[Any] = tensor.detach().cpu().to(dtype).numpy()
    return array


def _check_times(**seconds: float) -> None:
    for name, value in seconds.items():
        if not 0 < value < math.inf:
            raise ConfigError(f"distillation.{name} is {value}\n  allowed: more than 0 seconds")


def _cause(error: RayActorError) -> str:
    """What the constructor said, out of Ray's report with its remote traceback."""
    said = re.findall(r"^road_ray\.errors\.\w+: (.*)", str(error), flags=re.DOTALL | re.MULTILINE)
    return said[-1].strip() if said else str(error).strip()
