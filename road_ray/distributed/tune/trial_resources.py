"""Resources of trials that start processes of their own, and the number of trials with room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from road_ray.distributed.room import SCALE_UP_VARIABLE, core_share
from road_ray.errors import ClusterError

OWN_CPUS = 0.1  # that the actor of a trial reserves where workers and teachers reserve the rest


@dataclass(frozen=True)
class StageDemand:
    """Resources that one stage of a trial requests through its workers and teachers.

    A stage without workers trains in the trial's own process.
    """

    workers: int = 0
    gpus_per_worker: float = 0.0
    teachers: int = 0  # actors, replicas included
    cpus_per_teacher: float | None = None  # None: a share of the cluster, as `core_share` gives it
    gpus_per_teacher: float = 0.0
    shared: bool = False  # all trials use the same teachers
    min_workers: int | None = None  # that have to run at the same time; None: all

    def max_concurrent(
        self, total: Mapping[str, float], cpus_per_trial: float = 1.0, gpus_per_trial: float = 0.0
    ) -> int:
        """Return how many trials fit a cluster with the resources ``total``, at least one.

        ``gpus_per_trial`` are those that the trial's own process holds beside its workers and
        teachers; it takes ``cpus_per_trial`` if it trains itself.
        """
        cpus = total.get("CPU", 0.0)
        per_teacher = self.cpus_per_teacher
        if per_teacher is None and self.teachers:
            per_teacher = core_share(cpus, self.teachers, max(1, self.workers))
        pool = {
            "CPU": self.teachers * (per_teacher or 0.0),
            "GPU": self.teachers * self.gpus_per_teacher,
        }
        own_cpus = OWN_CPUS if self.workers else cpus_per_trial
        training = self._training(self.workers, own_cpus, gpus_per_trial)
        room = []
        for name, amount in training.items():
            once, each = (pool[name], 0.0) if self.shared else (0.0, pool[name])
            if amount + each > 0:
                room.append(int((total.get(name, 0.0) - once) / (amount + each) + 1e-9))
        return max(1, min(room))

    def check_room(self, total: Mapping[str, float], gpus_per_trial: float = 0.0) -> None:
        """Raise ``ClusterError`` if a cluster with the resources ``total`` has too little for one
        trial and its workers. Teachers do not count: with a complete store, none start.
        """
        if not self.workers:
            return
        workers = self.min_workers or self.workers
        needed = self._training(workers, OWN_CPUS, gpus_per_trial)
        if all(amount <= total.get(name, 0.0) + 1e-6 for name, amount in needed.items()):
            return
        both = [f"{name} {amount:g} of {total.get(name, 0.0):g}" for name, amount in needed.items()]
        raise ClusterError(
            f"the cluster has no room for a trial with {workers} workers, which needs "
            f"{', '.join(both)}; {OWN_CPUS:g} CPU and gpus_per_trial are for the trial itself\n"
            f"  fix: lower workers or gpus_per_trial, or add nodes; set {SCALE_UP_VARIABLE} if the "
            "cluster adds nodes by itself\n  kept: nothing was started"
        )

    def _training(self, workers: int, own_cpus: float, own_gpus: float) -> dict[str, float]:
        """Return the resources of a trial's own process and of its workers."""
        return {"CPU": own_cpus + workers, "GPU": own_gpus + workers * self.gpus_per_worker}


@dataclass(frozen=True)
class Demand:
    """Resources of a trial with workers or teachers; its stages run one after another."""

    stages: tuple[StageDemand, ...] = ()

    def max_concurrent(
        self, total: Mapping[str, float], cpus_per_trial: float = 1.0, gpus_per_trial: float = 0.0
    ) -> int:
        """Return how many trials fit at the same time, whichever stages they are in."""
        stages = self.stages or (StageDemand(),)
        return min(stage.max_concurrent(total, cpus_per_trial, gpus_per_trial) for stage in stages)

    def check_room(self, total: Mapping[str, float], gpus_per_trial: float = 0.0) -> None:
        """Raise ``ClusterError`` for a stage whose workers do not fit the cluster."""
        for stage in self.stages:
            stage.check_room(total, gpus_per_trial)
