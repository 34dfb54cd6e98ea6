"""Resources of trials that start processes of their own, and the number of trials with room.

Tune cannot admit such trials by itself: Ray Train reserves its workers in a placement group of its
own, which cannot be part of that of a trial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from road_ray.distributed.room import SCALE_UP_VARIABLE, core_share, scale_up_seconds
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

    def trials(
        self, total: Mapping[str, float], cpus_per_trial: float = 1.0, gpus_per_trial: float = 0.0
    ) -> int:
        """Return how many trials in this stage fit a cluster with the resources ``total``.

        ``gpus_per_trial`` are those that the trial's own process holds beside its workers and
        teachers; it takes ``cpus_per_trial`` if it trains itself.
        """
        cpus, per_teacher = total.get("CPU", 0.0), self.cpus_per_teacher
        if per_teacher is None and self.teachers:
            per_teacher = core_share(cpus, self.teachers, max(1, self.workers))
        own_cpus = OWN_CPUS if self.workers else cpus_per_trial
        room = []
        for name, training, teaching in (
            ("CPU", own_cpus + self.workers, self.teachers * (per_teacher or 0.0)),
            (
                "GPU",
                gpus_per_trial + self.workers * self.gpus_per_worker,
                self.teachers * self.gpus_per_teacher,
            ),
        ):
            once, each = (teaching, training) if self.shared else (0.0, training + teaching)
            if each > 0:
                room.append(int((total.get(name, 0.0) - once) / each + 1e-9))
        return max(0, min(room))


def max_concurrent(
    stages: Sequence[StageDemand],
    total: Mapping[str, float],
    cpus_per_trial: float = 1.0,
    gpus_per_trial: float = 0.0,
) -> int:
    """Return how many trials fit at the same time, whichever stages they are in; at least one.

    Raises ``ClusterError`` for a stage whose workers do not fit a cluster that adds no machines.
    Teachers do not count for that: where their answers are stored, none start.
    """
    own = (cpus_per_trial, gpus_per_trial)
    for stage in stages:
        workers = stage.min_workers or stage.workers
        least = replace(stage, workers=workers, teachers=0)
        if workers and not least.trials(total, *own) and not scale_up_seconds():
            gpus = gpus_per_trial + workers * stage.gpus_per_worker
            raise ClusterError(
                f"the cluster has no room for a trial with {workers} workers, which needs "
                f"CPU {workers + OWN_CPUS:g} of {total.get('CPU', 0.0):g}, GPU {gpus:g} of "
                f"{total.get('GPU', 0.0):g}; {OWN_CPUS:g} CPU and gpus_per_trial are for the trial "
                f"itself\n  fix: lower workers or gpus_per_trial, or add nodes; set "
                f"{SCALE_UP_VARIABLE} if the cluster adds nodes by itself\n"
                "  kept: nothing was started"
            )
    return max(1, min(stage.trials(total, *own) for stage in stages))
