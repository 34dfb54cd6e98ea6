"""Resources of trials that start processes of their own, and the number of trials with room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Demand:
    """Resources that one trial requests through its workers and teachers.

    A trial without workers trains in its own process, which needs a core too.
    """

    workers: int = 0
    gpus_per_worker: float = 0.0
    teachers: int = 0  # actors, replicas included
    cpus_per_teacher: float | None = None  # None: a share of the cluster, as `core_share` gives it
    gpus_per_teacher: float = 0.0
    shared: bool = False  # all trials use the same teachers

    def max_concurrent(self, total: Mapping[str, float]) -> int:
        """Return how many trials fit a cluster with the resources ``total``, at least one."""
        from road_ray.distributed.placement import core_share  # imports Ray

        cpus = total.get("CPU", 0.0)
        processes = max(1, self.workers)
        per_teacher = self.cpus_per_teacher
        if per_teacher is None and self.teachers:
            per_teacher = core_share(cpus, self.teachers, processes)
        pool = {
            "CPU": self.teachers * (per_teacher or 0.0),
            "GPU": self.teachers * self.gpus_per_teacher,
        }
        training = {"CPU": float(processes), "GPU": self.workers * self.gpus_per_worker}
        room = []
        for name, amount in training.items():
            once, each = (pool[name], 0.0) if self.shared else (0.0, pool[name])
            if amount + each > 0:
                room.append(int((total.get(name, 0.0) - once) / (amount + each) + 1e-9))
        return max(1, min(room))
