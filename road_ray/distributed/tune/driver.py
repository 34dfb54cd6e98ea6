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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from optuna.trial import TrialState

from road_ray.distributed.connection import environment_for_workers
from road_ray.distributed.room import fitting, room, scale_up_seconds
from road_ray.distributed.tune.one_trial import TRIALS_LOCK, Record, Run, perform
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.study import open_study, records_of
from road_ray.errors import ResourceError, RoadError
from road_ray.system.operating_system import lock_exclusively

if TYPE_CHECKING:
    import optuna
    from ray.tune import Tuner

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
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}
OWN_CPUS = 0.1  # that the actor of a trial reserves where workers and teachers reserve the rest


@dataclass(frozen=True)
class StageDemand:
    """Processes that one stage of a trial starts beside the trial's own, which waits for them."""

    workers: int = 0
    gpus_per_worker: float = 0.0
    min_workers: int = 0  # that have to run at the same time
    teachers: bool = False  # in actors of this trial alone


def search(
    config: SearchConfig,
    name: str,
    directory: Path,
    started: Callable[[], AbstractContextManager[Run]],
    *,
    changed: Callable[[Record], None] = lambda record: None,
    demand: Sequence[StageDemand] = (),
) -> list[Record]:
    """Run trials until the budget is spent, and return the records of all trials, earlier starts
    included.

    ``started()`` connects to Ray and gives the function that runs one trial, ``changed(record)`` is
    called for each that starts or ends. ``demand`` is given where trials start processes of their
    own, so that stopping a trial ends its process. The caller holds the lock of the directory.
    """
    study = open_study(config, name, directory)
    for record in records_of(study):
        changed(record)
    from road_ray.distributed.tune.searcher import StudySearch

    searcher = StudySearch(study, config, directory, changed)
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    if running or not searcher.spent():
        wait_for_trials(directory)
        with started() as run:
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

    from road_ray.distributed.tune.searcher import scheduler

    # The processes of a nested trial request what they need; its own actor only waits for them.
    resources = {"CPU": OWN_CPUS if demand else config.cpus_per_trial}
    resources |= {"GPU": config.gpus_per_trial} if config.gpus_per_trial else {}
    room("trial", 1, resources, remedy=", or lower cpus_per_trial and gpus_per_trial")
    for stage in demand:
        if stage.workers:  # a core for the trial itself too
            room("processes of a trial", stage.min_workers + 1, {"CPU": 1.0})
            room("workers of a trial", stage.min_workers, {"GPU": stage.gpus_per_worker})
    at_once = max_concurrent(config, demand, ray.available_resources())
    # Trials that wait for resources: one, so that few are drawn early, unless machines are added.
    pending = config.max_concurrent if scale_up_seconds() else None
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(pending or 1)
    directory = directory.resolve()
    scratch, place = directory / ".tune", environment_for_workers()
    trial = partial(perform, run=run, search=config, directory=directory, environment=place)
    shutil.rmtree(scratch, ignore_errors=True)
    tuner = tune.Tuner(
        tune.with_resources(trial, {key.lower(): amount for key, amount in resources.items()}),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=scheduler(config, study.trials),
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
        _fit(tuner, directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _fit(tuner: Tuner, directory: Path) -> None:
    """Run the trials. Raises ``ResourceError`` for an error of the searcher, such as of a full
    disk, of which Tune raises the text.
    """
    from ray.tune import TuneError

    try:
        tuner.fit()
    except TuneError as error:
        cause: BaseException | None = error
        while cause and not isinstance(cause, RoadError | OSError):
            cause = cause.__context__
        if cause is None:
            raise
        raise ResourceError(
            f"{directory}: the sweep cannot go on: {cause}\n"
            "  fix: remove the cause, then run the same command again\n"
            "  kept: the trials that have ended"
        ) from cause


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


def max_concurrent(
    config: SearchConfig, stages: Sequence[StageDemand], free: Mapping[str, float]
) -> int | None:
    """Return how many trials may run at the same time: ``max_concurrent``, or else as many as the
    ``free`` resources of a cluster allow, whichever stages they are in; one at a time if they start
    teachers of their own. None: Tune counts trials without processes of their own.
    """

    def places(stage: StageDemand) -> int:
        cpus = OWN_CPUS + stage.workers if stage.workers else config.cpus_per_trial
        gpus = config.gpus_per_trial + stage.workers * stage.gpus_per_worker
        needed = {"CPU": cpus, **({"GPU": gpus} if gpus else {})}
        return 1 if stage.teachers else fitting(free, needed, 1)

    if config.max_concurrent or not stages:
        return config.max_concurrent
    at_once = max(1, min(map(places, stages)))
    if scale_up_seconds():
        _log.warning(
            "max_concurrent is not given: %d trials run at the same time, as many as the machines "
            "that are up have room for; with max_concurrent=N, the cluster adds machines for N",
            at_once,
        )
    return at_once
