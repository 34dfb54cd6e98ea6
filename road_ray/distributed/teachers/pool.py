"""Specification of a pool of teachers, and its start as actors in the cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ray

from road_ray.data.task_and_dataset import Task
from road_ray.distillation.ensemble.local_ensemble import PLAIN, TeacherOptions
from road_ray.distributed.autoscaling import scale_up_seconds
from road_ray.distributed.placement import check_placement, core_share, wait_for_room
from road_ray.distributed.teachers.actor import Hosting, TeacherActor
from road_ray.distributed.teachers.client import ActorEnsemble, Pool
from road_ray.errors import ConfigError

_THREADS = 16  # concurrent requests of one actor, to batch them; more wait in its queue


@dataclass(frozen=True, kw_only=True)
class PoolSpecification:
    """Teachers, each in an actor of its own, and the resources of these actors."""

    directories: tuple[str, ...]
    task: Task
    replicas: int = 1  # actors per teacher; more of them serve more requests per second
    # None: one core, or a share of half the cluster that leaves one core for `beside` workers each.
    num_cpus: float | None = None
    num_gpus: float = 0.0
    resources: Mapping[str, float] = field(
        default_factory=dict
    )  # custom resources of each actor, for its placement
    beside: int = 0
    other_teachers: int = 0  # teachers in other pools of the same run, of equal size
    teacher: TeacherOptions = PLAIN
    max_rows: int = 256  # of a batch merged from requests of several students
    wait_seconds: float = 0.002  # that a request waits for other students
    timeout_seconds: float = 120.0  # per answer
    start_timeout_seconds: float = 120.0

    def __post_init__(self) -> None:
        if not self.directories:
            raise ConfigError("distillation.teachers is empty\n  allowed: at least one directory")
        for name in ("timeout_seconds", "start_timeout_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                value = getattr(self, name)
                raise ConfigError(f"distillation.{name} is {value}\n  allowed: more than 0 seconds")
        for name in ("replicas", "max_rows"):
            if getattr(self, name) < 1:
                raise ConfigError(f"distillation.{name} is {getattr(self, name)}\n  allowed: 1 up")

    def actor_resources(self) -> dict[str, float]:
        """Return the resources of each actor."""
        share = self.num_cpus
        if share is None:
            total = ray.cluster_resources().get("CPU", 0.0)
            teachers = len(self.directories) * self.replicas + self.other_teachers
            # A cluster that adds machines may be empty still: what is up says nothing.
            share = 1.0 if scale_up_seconds() else core_share(total, teachers, self.beside)
        return {"CPU": share, "GPU": self.num_gpus, **self.resources}


def specify_pool(
    directories: Sequence[str | Path],
    task: Task,
    teacher: TeacherOptions = PLAIN,
    **options: Any,
) -> PoolSpecification:
    """Return the specification with absolute directories, also in the map of labels."""
    label_map = {
        key if isinstance(names, str) else _absolute(key): names
        for key, names in (teacher.label_map or {}).items()
    }
    return PoolSpecification(
        directories=tuple(map(_absolute, directories)),
        task=task,
        teacher=replace(teacher, label_map=label_map),
        **options,
    )


def _absolute(place: str | Path) -> str:
    """Return a directory as a path that is the same in an actor; other names as they are."""
    path = Path(place).expanduser()
    return str(path.resolve()) if path.is_dir() else str(place)


def start_teachers(directories: Sequence[str | Path], task: Task, **options: Any) -> ActorEnsemble:
    """Start one actor per directory in the connected cluster; ``options`` are those of
    ``PoolSpecification``.

    Raises ``ClusterError`` at once if the cluster has no room, later if an actor does not load.
    """
    return start_pool(specify_pool(directories, task, **options))


def start_pool(specification: PoolSpecification) -> ActorEnsemble:
    """Start the specified actors, owned by this process, and wait until they are loaded."""
    resources = specification.actor_resources()
    replicas = specification.replicas
    count = len(specification.directories) * replicas
    check_placement(
        "teachers",
        count + specification.other_teachers,
        resources,
        remedy=", or keep them in this process (distillation.host: process)",
    )
    if scale_up_seconds():  # new machines may come later than teachers have to load
        wait_for_room(count, resources, actors="teachers")
    actor = ray.remote(
        num_cpus=resources["CPU"],
        num_gpus=resources["GPU"],
        resources=dict(specification.resources),
        max_restarts=-1,
        max_concurrency=_THREADS,
        concurrency_groups={"health": 1},
        # The loss of one machine must not lose all replicas of a teacher.
        scheduling_strategy="DEFAULT" if replicas == 1 else "SPREAD",
    )(TeacherActor)
    hosting = Hosting(
        num_threads=max(1, int(resources["CPU"])),
        device="cuda" if resources["GPU"] else "cpu",
        teacher=specification.teacher,
        max_rows=specification.max_rows,
        wait_seconds=specification.wait_seconds,
    )
    actors = tuple(
        tuple(actor.remote(directory, specification.task, hosting) for _ in range(replicas))
        for directory in specification.directories
    )
    pool = Pool(
        actors,
        specification.directories,
        timeout_seconds=specification.timeout_seconds,
        start_timeout_seconds=specification.start_timeout_seconds,
    )
    ensemble = ActorEnsemble(pool, owner=True)
    try:
        ensemble.health()
    except BaseException:
        ensemble.close()
        raise
    return ensemble
