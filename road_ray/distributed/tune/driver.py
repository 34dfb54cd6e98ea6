"""Driver of a sweep: Ray Tune over a persistent study, resumed by the next start after a kill; one
driver at a time, and no more trials than the cluster has room for.

Tune cannot admit trials that start workers and teachers by itself: Ray Train reserves its workers
in a placement group of its own, which cannot be part of that of a trial.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from optuna.trial import TrialState

from road_ray.distributed.room import SCALE_UP_VARIABLE, core_share, room, scale_up_seconds
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.study import open_study, records_of, reports_of_ended
from road_ray.distributed.tune.trial_record import TRIALS_LOCK, Record, Run
from road_ray.errors import ClusterError, ResourceError
from road_ray.system.operating_system import lock_exclusively

if TYPE_CHECKING:
    import optuna

    from road_ray.distributed.tune.searcher import StudySearch


_log = logging.getLogger(__name__)
_MAX_DEATHS = 2  # restarts of a trial's process, each from its checkpoints
# Tune's own state is never read again, so it writes none, and no logs.
_SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a failed trial reports no metric
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",
    "TUNE_MAX_PENDING_TRIALS_PG": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}
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


def search(
    config: SearchConfig,
    name: str,
    directory: Path,
    run: Run,
    *,
    connected: Callable[[], AbstractContextManager[object]],
    changed: Callable[[Record], None] = lambda record: None,
    demand: Sequence[StageDemand] = (),
) -> list[Record]:
    """Run trials until the budget is spent, and return the records of all trials, earlier starts
    included.

    ``run(directory, params, on_report)`` runs one trial, ``changed(record)`` is called for each
    that starts or ends. ``demand`` is given where trials start processes of their own, so that
    stopping a trial ends its process. The caller holds the lock of the directory.
    """
    study = open_study(config, name, directory)
    for record in records_of(study):
        changed(record)
    from road_ray.distributed.tune.searcher import StudySearch

    searcher = StudySearch(study, config, directory, changed)
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    if running or not searcher.spent():
        wait_for_trials(directory)
        with connected():
            _tune(study, config, directory, run, searcher, demand)
    return records_of(study)


def _tune(
    study: optuna.Study,
    config: SearchConfig,
    directory: Path,
    run: Run,
    searcher: StudySearch,
    demand: Sequence[StageDemand],
) -> None:
    for key, value in _SETTINGS.items():
        os.environ.setdefault(key, value)
    import ray
    from ray import tune

    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # errors are in the records

    from road_ray.distributed.tune.schedulers import replay_reports, scheduler
    from road_ray.distributed.tune.trial_actor import Work, perform

    # The processes of a nested trial request what they need; its own actor only waits for them.
    own_cpus = OWN_CPUS if demand else config.cpus_per_trial
    resources = {"CPU": own_cpus, "GPU": config.gpus_per_trial}
    resources = {key: amount for key, amount in resources.items() if amount}
    room("trial", 1, resources, remedy=", or lower cpus_per_trial and gpus_per_trial")
    work = Work(
        run=run,
        directory=directory.resolve(),
        metric=config.metric[0],
        place=os.getcwd(),
        threads=max(1, int(config.cpus_per_trial)),
        timeout_seconds=config.trial_timeout_seconds,
    )
    at_once = max_concurrent(config, demand, ray.cluster_resources())
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(_max_pending(config))
    stopping = scheduler(config)
    if config.scheduler != "none":
        replay_reports(stopping, reports_of_ended(study), config.metric[0])
    scratch = directory.resolve() / ".tune"
    shutil.rmtree(scratch, ignore_errors=True)
    tuner = tune.Tuner(
        tune.with_resources(
            partial(perform, work=work), {key.lower(): amount for key, amount in resources.items()}
        ),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=stopping,
            num_samples=-1,
            max_concurrent_trials=at_once,
            reuse_actors=False,  # Tune loses trials whose actor another one does not leave in time
        ),
        run_config=tune.RunConfig(
            name=f"tune-{uuid.uuid4().hex[:8]}",
            storage_path=str(scratch),
            failure_config=tune.FailureConfig(max_failures=_MAX_DEATHS),
            verbose=0,
        ),
    )
    try:
        tuner.fit()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def wait_for_trials(directory: Path, timeout_seconds: float = 120.0) -> None:
    """Return when no process of an earlier driver runs trials. Ray ends those of a killed driver
    after about ten seconds; until then they write to their run directories.

    Raises ``ResourceError`` if they are still alive after ``timeout_seconds``.
    """
    deadline = time.monotonic() + timeout_seconds
    with (directory / TRIALS_LOCK).open("a+", encoding="utf-8") as lock:
        if lock_exclusively(lock) is None:
            return
        _log.info("waiting for trials of an earlier start to end")
        while lock_exclusively(lock):
            if time.monotonic() > deadline:
                raise ResourceError(
                    f"{directory}: processes of an earlier start still run its trials after "
                    f"{timeout_seconds:g} s\n  fix: end them; nothing was started"
                )
            time.sleep(0.2)


def _max_pending(config: SearchConfig) -> int:
    """Return how many trials may wait for resources, for which a cluster may add machines: one, so
    that few are drawn early, or all of ``max_concurrent``.
    """
    return (config.max_concurrent or 1) if scale_up_seconds() else 1


def max_concurrent(
    config: SearchConfig, stages: Sequence[StageDemand], total: Mapping[str, float]
) -> int | None:
    """Return how many trials may run at the same time on a cluster with the resources ``total``:
    ``max_concurrent``, or as many as have room, whichever stages they are in, at least one. None:
    Tune counts trials without processes of their own.

    Raises ``ClusterError`` for a stage whose workers do not fit a cluster that adds no machines.
    Teachers do not count for that: where their answers are stored, none start.
    """
    if not stages:
        return config.max_concurrent
    own = config.cpus_per_trial, config.gpus_per_trial
    for stage in stages:
        workers = stage.min_workers or stage.workers
        least = replace(stage, workers=workers, teachers=0)
        if workers and not least.trials(total, *own) and not scale_up_seconds():
            gpus = config.gpus_per_trial + workers * stage.gpus_per_worker
            raise ClusterError(
                f"the cluster has no room for a trial with {workers} workers, which needs "
                f"CPU {workers + OWN_CPUS:g} of {total.get('CPU', 0.0):g}, GPU {gpus:g} of "
                f"{total.get('GPU', 0.0):g}; {OWN_CPUS:g} CPU and gpus_per_trial are for the trial "
                f"itself\n  fix: lower workers or gpus_per_trial, or add nodes; set "
                f"{SCALE_UP_VARIABLE} if the cluster adds nodes by itself\n"
                "  kept: nothing was started"
            )
    places = max(1, min(stage.trials(total, *own) for stage in stages))
    if config.max_concurrent is None and scale_up_seconds():
        _log.warning(
            "max_concurrent is not given: %d trials run at the same time, as many as the machines "
            "that are up have room for; with max_concurrent=N, the cluster adds machines for N",
            places,
        )
    return config.max_concurrent or places
