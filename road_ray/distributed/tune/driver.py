"""Driver of a sweep: Ray Tune over a persistent study, resumed by the next start after a kill."""

from __future__ import annotations

import logging
import math
import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from optuna.trial import TrialState

from road_ray.distributed.room import room, scale_up_seconds
from road_ray.distributed.tune.one_driver_at_a_time import wait_for_trials
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.study import open_study, records_of, reports_of_ended
from road_ray.distributed.tune.trial_record import Record, Run
from road_ray.distributed.tune.trial_resources import OWN_CPUS, StageDemand, max_concurrent

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
    stopping a trial ends its process. The caller holds the sweep lock.
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
    searcher.max_concurrent = _max_concurrent(config, demand)
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(_max_pending(config))
    judge = scheduler(config)
    if config.scheduler != "none":
        replay_reports(judge, reports_of_ended(study), config.metric[0])
    scratch = directory.resolve() / ".tune"
    shutil.rmtree(scratch, ignore_errors=True)
    tuner = tune.Tuner(
        tune.with_resources(
            partial(perform, work=work), {key.lower(): amount for key, amount in resources.items()}
        ),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=judge,
            num_samples=-1,
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


def _max_concurrent(config: SearchConfig, demand: Sequence[StageDemand]) -> float:
    """Return how many trials may run at the same time: ``max_concurrent``, or as many as the
    cluster has room for. Tune itself counts trials without processes of their own: one always
    waits, for which a cluster may add a machine.

    Raises ``ClusterError`` for trials whose workers do not fit a cluster that adds none.
    """
    import ray

    if not demand:
        return config.max_concurrent or math.inf
    total = ray.cluster_resources()
    places = max_concurrent(demand, total, config.cpus_per_trial, config.gpus_per_trial)
    if config.max_concurrent is None and scale_up_seconds():
        _log.warning(
            "max_concurrent is not given: %d trials run at the same time, as many as the machines "
            "that are up have room for; with max_concurrent=N, the cluster adds machines for N",
            places,
        )
    return config.max_concurrent or places


def _max_pending(config: SearchConfig) -> int:
    """Return how many trials may wait for resources, for which a cluster may add machines: one, so
    that few are drawn early, or all of ``max_concurrent``.
    """
    return (config.max_concurrent or 1) if scale_up_seconds() else 1
