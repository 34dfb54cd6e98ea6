"""The teachers that are wanted, what they may use, and their start as actors in the cluster."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import ray

from road_ray.data.model_files import locate_model
from road_ray.data.schema import Task
from road_ray.distillation.teacher_identity import fingerprint_config, fingerprint_weights
from road_ray.distributed.placement import check_placement, core_share
from road_ray.distributed.teachers.actor import Hosting, TeacherActor
from road_ray.distributed.teachers.client import ActorEnsemble
from road_ray.distributed.teachers.replicas import OnLost, Pool
from road_ray.errors import ConfigError
from road_ray.models.config import Precision

_THREADS = 16  # requests that one actor holds at once, to join them; more wait in its queue


@dataclass(frozen=True, kw_only=True)
class PoolSpecification:
    """Which teachers, in how many actors, with what. Cores and GPUs are those of one teacher."""

    directories: tuple[str, ...]
    task: Task
    replicas: int = 1  # actors with the same teachers; more of them answer more requests a second
    teachers_per_actor: int = 1  # more: they share one process and its memory, one after the other
    # None: one core, or a share of half the cluster that leaves `beside` workers one each.
    num_cpus: float | None = None
    num_gpus: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)  # of one actor; they place it
    beside: int = 0
    others: int = 0  # teachers of other pools of the same run, each as large as one of these
    label_map: Mapping[str, str] | None = None
    precision: Precision = "auto"
    max_rows: int = 256  # of a batch joined from requests of several students
    wait_seconds: float = 0.002  # that a request waits for those of other students
    timeout_seconds: float = 120.0  # for one answer
    start_timeout_seconds: float = 120.0
    on_lost: OnLost = "stop"

    def __post_init__(self) -> None:
        if not self.directories:
            raise ConfigError("distillation.teachers is empty\n  allowed: at least one directory")
        for name in ("timeout_seconds", "start_timeout_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                value = getattr(self, name)
                raise ConfigError(f"distillation.{name} is {value}\n  allowed: more than 0 seconds")
        for name in ("replicas", "teachers_per_actor", "max_rows"):
            if getattr(self, name) < 1:
                raise ConfigError(f"distillation.{name} is {getattr(self, name)}\n  allowed: 1 up")
        if self.on_lost not in ("stop", "drop"):
            raise ConfigError(f"distillation.on_lost is {self.on_lost!r}\n  allowed: stop, drop")
        gpus = self.num_gpus * self.members
        if gpus > 1 and gpus % 1:
            raise ConfigError(
                f"distillation: {self.members} teachers of {self.num_gpus:g} GPUs make {gpus:g} in "
                "one actor\n  allowed: at most one, or whole ones"
            )

    @property
    def members(self) -> int:
        """Teachers of one actor; the last one may have fewer."""
        return min(self.teachers_per_actor, len(self.directories))

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The directories of each actor."""
        step = self.teachers_per_actor
        return tuple(
            self.directories[begin : begin + step]
            for begin in range(0, len(self.directories), step)
        )

    def asked(self) -> dict[str, float]:
        """What every actor asks of the cluster."""
        share = self.num_cpus
        if share is None:
            total = ray.cluster_resources().get("CPU", 0.0)
            teachers = len(self.groups) * self.replicas * self.members + self.others
            share = core_share(total, teachers, self.beside)
        asked = {"CPU": share * self.members, "GPU": self.num_gpus * self.members}
        return {**asked, **self.resources}

    def digest(self) -> str:
        """A name for the teachers and what they use; how one waits for them does not count."""
        own = {
            "directories",
            "task",
            "beside",
            "others",
            "timeout_seconds",
            "start_timeout_seconds",
        }
        told = {k: v for k, v in asdict(self).items() if k not in {*own, "on_lost"}}
        places = [locate_model(place) for place in self.directories]
        told["weights"] = [fingerprint_weights(place) for place in places]
        told["configs"] = [fingerprint_config(place) for place in places]  # names of labels, too
        told["task"] = repr(self.task)
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def specify_pool(
    directories: Sequence[str | Path],
    task: Task,
    **options: Any,
) -> PoolSpecification:
    """The specification with directories as every process of this machine names them."""
    places = [str(Path(d).resolve()) if Path(d).is_dir() else str(d) for d in directories]
    return PoolSpecification(directories=tuple(places), task=task, **options)


def start_teachers(directories: Sequence[str | Path], task: Task, **options: Any) -> ActorEnsemble:
    """One loaded actor a directory, in the connected cluster; ``options`` are those of
    ``PoolSpecification``.

    Raises ``ClusterError`` at once when the cluster has no room, later when one does not load.
    """
    return start_pool(specify_pool(directories, task, **options))


def start_pool(specification: PoolSpecification) -> ActorEnsemble:
    """The specified actors, loaded, owned by this process."""
    asked = specification.asked()
    groups, replicas = specification.groups, specification.replicas
    check_placement(
        "teachers" if specification.members == 1 else f"actors of {specification.members} teachers",
        len(groups) * replicas + math.ceil(specification.others / specification.members),
        asked,
        remedy=", or keep them in this process (distillation.host: process)",
    )
    actor = ray.remote(
        num_cpus=asked["CPU"],
        num_gpus=asked["GPU"],
        resources=dict(specification.resources),
        max_restarts=-1,
        # Where another replica can answer, the client asks it instead of waiting for a restart.
        max_task_retries=3 if replicas == 1 else 0,
        max_concurrency=_THREADS,
        concurrency_groups={"health": 1},
        # The loss of one machine should not take all copies of a teacher.
        scheduling_strategy="DEFAULT" if replicas == 1 else "SPREAD",
    )(TeacherActor)
    hosting = Hosting(
        num_threads=max(1, int(asked["CPU"])),
        device="cuda" if asked["GPU"] else "cpu",
        label_map=None if specification.label_map is None else dict(specification.label_map),
        precision=specification.precision,
        max_rows=specification.max_rows,
        wait_seconds=specification.wait_seconds,
    )
    actors = tuple(
        tuple(actor.remote(group, specification.task, hosting) for _ in range(replicas))
        for group in groups
    )
    ensemble = ActorEnsemble(describe_pool(specification, actors), owner=True)
    try:
        ensemble.health()
    except BaseException:
        ensemble.close()
        raise
    return ensemble


def describe_pool(specification: PoolSpecification, actors: tuple[tuple[Any, ...], ...]) -> Pool:
    """What clients need in order to ask these actors."""
    return Pool(
        actors,
        specification.directories,
        teachers_per_actor=specification.teachers_per_actor,
        timeout_seconds=specification.timeout_seconds,
        start_timeout_seconds=specification.start_timeout_seconds,
        on_lost=specification.on_lost,
    )
