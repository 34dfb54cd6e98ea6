"""Driver of a sweep: Ray Tune over a persistent study, resumed by the next start after a kill; one
driver at a time, and no more trials than the cluster has room for.

``OptunaSearch`` of Tune fails on a study that is ahead of its pickled state, marks stopped trials
as complete, and resamples running trials. Here all state is in the study.

Tune cannot admit trials that start workers and teachers by itself: Ray Train reserves its workers
in a placement group of its own, which cannot be part of that of a trial.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import optuna
import ray
from optuna.trial import FrozenTrial, TrialState
from ray import tune
from ray.tune.search import Searcher

from road_ray.distributed.connection import environment_for_workers
from road_ray.distributed.room import fitting, room, scale_up_seconds
from road_ray.distributed.tune import one_trial
from road_ray.distributed.tune.one_trial import RECORD, TRIALS_LOCK, Record, Run, perform
from road_ray.distributed.tune.search_config import SearchConfig, StageDemand
from road_ray.distributed.tune.study import (
    ask,
    begun,
    find_trial,
    open_study,
    record_of,
    records_of,
    retried,
    should_stop,
    tell_outcome,
    tell_report,
)
from road_ray.errors import ResourceError, RoadError, first_line
from road_ray.system.operating_system import lock_exclusively

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
    called for each that has started or ended. ``demand`` is given where trials start processes of
    their own, so that stopping a trial ends its process. The caller holds the directory's lock.
    """
    study = open_study(config, name, directory)
    for record in records_of(study):
        if record.state != "running":  # these are told when they go on
            changed(record)
    searcher = StudySearch(study, config, directory, changed)
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    if running or not searcher.spent():
        wait_for_trials(directory)
        with started() as run:
            _tune(config, directory, run, searcher, demand)
    return records_of(study)


def _tune(
    config: SearchConfig,
    directory: Path,
    run: Run,
    searcher: StudySearch,
    demand: Sequence[StageDemand],
) -> None:
    for key, value in _SETTINGS.items():
        os.environ.setdefault(key, value)
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # errors are in the records

    # The processes of a nested trial request what they need; its own actor only waits for them.
    resources = {"CPU": OWN_CPUS if demand else config.cpus_per_trial}
    resources |= {"GPU": config.gpus_per_trial} if config.gpus_per_trial else {}
    room("trial", 1, resources, remedy=", or lower cpus_per_trial and gpus_per_trial")
    for stage in demand:
        if stage.workers:  # a core for the trial itself too
            room("processes of a trial", stage.min_workers + 1, {"CPU": 1.0})
            room("workers of a trial", stage.min_workers, {"GPU": stage.gpus_per_worker})
    at_once = max_concurrent(config, demand, free := ray.available_resources())
    # All start together where there is room; else one waits at a time, as more are drawn early.
    together = scale_up_seconds() or fitting(free, resources, 1) >= (at_once or math.inf)
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str((together and at_once) or 1)
    directory = directory.resolve()
    scratch, place = directory / ".tune", environment_for_workers()
    trial = partial(perform, run=run, search=config, directory=directory, environment=place)
    shutil.rmtree(scratch, ignore_errors=True)
    tuner = tune.Tuner(
        tune.with_resources(trial, {key.lower(): amount for key, amount in resources.items()}),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            num_samples=-1,
            max_concurrent_trials=at_once,
            reuse_actors=False,  # Tune loses trials whose actor another one does not leave in time
        ),
        run_config=tune.RunConfig(
            name=f"tune-{uuid.uuid4().hex[:8]}",
            storage_path=str(scratch),
            stop=searcher.stops,
            failure_config=tune.FailureConfig(max_failures=_MAX_DEATHS),
            verbose=0,
        ),
    )
    try:
        _fit(tuner, directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class StudySearch(Searcher):  # type: ignore[misc]
    """Searcher that resumes the running trials of an interrupted sweep and then samples new ones,
    until a budget is spent; it also decides which trials stop early.
    """

    def __init__(
        self,
        study: optuna.Study,
        config: SearchConfig,
        directory: Path,
        changed: Callable[[Record], None],
    ) -> None:
        super().__init__(metric=config.metric[0], mode=config.mode[0])
        self._study, self._config, self._directory = study, config, directory
        self._changed = changed
        self._numbers: dict[str, int] = {}  # by Tune's trial id
        self._spent = False
        trials = begun(study.get_trials(deepcopy=False))
        self._unfinished = [trial.number for trial in trials if trial.state == TrialState.RUNNING]
        earlier = sum(map(self._time_of, trials))
        self._start = time.monotonic() - earlier

    def suggest(self, trial_id: str) -> Any:
        """Return number and values of the next trial, or a marker that there will be none."""
        if not self._unfinished and self.spent():
            return Searcher.FINISHED
        number = self._unfinished.pop(0) if self._unfinished else None
        record = ask(self._study, self._config, number)
        self._write(record)
        self._numbers[trial_id] = record.number
        return {"number": record.number, "params": dict(record.params)}

    def _write(self, record: Record) -> None:
        """Write the record of a trial, and tell that it changed."""
        try:
            one_trial.write(self._directory, record)
        except ResourceError as error:  # of a full disk; the next start writes it from the study
            _log.warning("%s", first_line(error))
        self._changed(record)

    def _time_of(self, trial: FrozenTrial) -> float:
        """Return the seconds of a trial until now."""
        if trial.state == TrialState.RUNNING:
            return one_trial.spent(one_trial.trial_directory(self._directory, trial.number))
        return float(trial.user_attrs.get("seconds", 0.0))

    def spent(self) -> bool:
        """Return True if no new trial may start."""
        # Tune asks ten times a second while the last trials run, and no budget comes back.
        if self._spent:
            return True
        hours, trials = self._config.budget_hours, self._study.get_trials(deepcopy=False)
        again = retried(trials)  # also by those that wait
        tried = sum(trial.number not in again for trial in begun(trials))
        is_late = hours is not None and time.monotonic() - self._start >= 3600 * hours
        self._spent = tried >= self._config.most_trials or is_late
        return self._spent

    def stops(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Record an intermediate result, and return True if it ends the trial."""
        if "step" not in result or len(self._config.metric) > 1:
            return False
        number, value = self._numbers[trial_id], float(result[self._config.metric[0]])
        new = tell_report(self._study, number, result["step"], result["total"], value)
        return new and should_stop(self._config, self._study.get_trials(deepcopy=False), number)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Record the end of a trial: complete or failed as its process tells, else stopped by the
        scheduler, or its process died for good.
        """
        trial = find_trial(self._study, self._numbers[trial_id])
        if result and RECORD in result and not error:
            record = result[RECORD]
        else:
            state, reason = "failed", "its process died repeatedly (out of memory?)"
            if trial.intermediate_values and not error:
                step = max(trial.intermediate_values)
                state, reason = "pruned", f"stopped by {self._config.scheduler} at step {step}"
            record = replace(record_of(trial), state=state, reason=reason)
            record = replace(record, seconds=self._time_of(trial))
        tell_outcome(self._study, record)
        self._write(record_of(find_trial(self._study, trial.number)))

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: all state is in the study and the directories."""


def _fit(tuner: tune.Tuner, directory: Path) -> None:
    """Run the trials. Raises ``ResourceError`` for an error of the searcher, such as of a full
    disk, of which Tune raises the text.
    """
    try:
        tuner.fit()
    except tune.TuneError as error:
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
