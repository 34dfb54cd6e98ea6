"""Start of teachers as actors of the connected cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import ray

from road_ray.data.task_and_dataset import Task
from road_ray.distillation.teacher import PLAIN, TeacherOptions
from road_ray.distributed.room import core_share, room, scale_up_seconds
from road_ray.distributed.teachers.client import ActorEnsemble, TeacherActor
from road_ray.errors import ConfigError

_RETRIES = 3  # of Ray, of a request whose teacher dies


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
    _check(directories, replicas, timeout_seconds, start_timeout_seconds)
    count = len(directories) * replicas
    if num_cpus is None:
        cores = ray.cluster_resources().get("CPU", 0.0)
        num_cpus = core_share(cores, count + other_teachers, beside)
        num_cpus = 1.0 if scale_up_seconds() else num_cpus  # a growing cluster may be empty still
    needed = {"CPU": num_cpus, "GPU": num_gpus, **(resources or {})}
    remedy = ", or keep them in this process (distillation.host: process)"
    room("teachers", count + other_teachers, needed, remedy=remedy)
    if scale_up_seconds():  # new machines may come later than teachers have to load
        room("teachers", count, needed, free=True)
    actor = ray.remote(
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        resources=dict(resources or {}),
        max_restarts=-1,
        max_task_retries=_RETRIES,
        concurrency_groups={"health": 1},
        # The loss of one machine must not lose all replicas of a teacher.
        scheduling_strategy="DEFAULT" if replicas == 1 else "SPREAD",
    )(TeacherActor)
    places, options = [_absolute(name) for name in directories], _absolute_labels(teacher)
    device, num_threads = "cuda" if num_gpus else "cpu", max(1, int(num_cpus))
    actors = [
        tuple(actor.remote(place, task, options, device, num_threads) for _ in range(replicas))
        for place in places
    ]
    ensemble = ActorEnsemble(actors, places, timeout_seconds, start_timeout_seconds, owner=True)
    try:
        ensemble.health()
    except BaseException:
        ensemble.close()
        raise
    return ensemble


def _check(
    directories: Sequence[object],
    replicas: int,
    timeout_seconds: float,
    start_timeout_seconds: float,
) -> None:
    """Raise ``ConfigError`` for what makes no teachers."""
    if not directories:
        raise ConfigError("distillation.teachers is empty\n  allowed: at least one directory")
    if replicas < 1:
        raise ConfigError(f"distillation.replicas is {replicas}\n  allowed: 1 up")
    for name, seconds in (
        ("timeout_seconds", timeout_seconds),
        ("start_timeout_seconds", start_timeout_seconds),
    ):
        if not 0 < seconds < math.inf:
            raise ConfigError(f"distillation.{name} is {seconds}\n  allowed: more than 0 seconds")


def _absolute_labels(teacher: TeacherOptions) -> TeacherOptions:
    """Return the options with directories in the map of labels that an actor finds."""
    label_map = {
        key if isinstance(names, str) else _absolute(key): names
        for key, names in (teacher.label_map or {}).items()
    }
    return replace(teacher, label_map=label_map)


def _absolute(place: str | Path) -> str:
    """Return a directory as a path that is the same in an actor; other names as they are."""
    path = Path(place).expanduser()
    return str(path.resolve()) if path.is_dir() else str(place)
