"""Searcher of Ray Tune over an Optuna study.

``OptunaSearch`` fails on a study that is ahead of its pickled state, marks stopped trials as
complete, and resamples running trials. Here all state is in the study and the trials' directories.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState
from ray.tune.search import Searcher

from road_ray.distributed.tune import trial_record
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.study import (
    distributions,
    find_trial,
    record_of,
    retried,
    tell_outcome,
    tell_report,
)
from road_ray.distributed.tune.trial_actor import ENDED
from road_ray.distributed.tune.trial_record import Record

_DIED = "its process died repeatedly (out of memory?)"


class StudySearch(Searcher):  # type: ignore[misc]
    """Searcher that resumes the running trials of an interrupted sweep and then samples new ones,
    until a budget is spent, at most ``max_concurrent`` at once.
    """

    def __init__(
        self,
        study: optuna.Study,
        config: SearchConfig,
        directory: Path,
        changed: Callable[[Record], None] = lambda record: None,
    ) -> None:
        super().__init__(metric=config.metric[0], mode=config.mode[0])
        self._study, self._config, self._directory = study, config, directory
        self._changed = changed
        self.max_concurrent = math.inf  # until the cluster is known
        self._numbers: dict[str, int] = {}  # by Tune's trial id
        self._started_at: dict[int, float] = {}
        self._running: set[str] = set()  # Tune's trial ids
        self._waiting: set[str] = set()  # those that no process has taken up yet
        self._spent = False
        self._space = distributions(config.space)
        self._start = time.monotonic()
        trials = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        self._unfinished = [trial.number for trial in trials]

    def suggest(self, trial_id: str) -> Any:
        """Return number and values of the next trial, None if there is none now, or a marker that
        there will be none.
        """
        if len(self._running) >= self.max_concurrent:
            return None
        if self._unfinished:
            number = self._unfinished.pop(0)
        elif not self.spent():
            number = self._study.ask(fixed_distributions=self._space).number
        else:
            return Searcher.FINISHED
        record = trial_record.read(self._directory, number)
        record = record or record_of(self._study, self._trial(number))
        trial_record.write(self._directory, record)
        self._numbers[trial_id] = number
        self._running.add(trial_id)
        self._waiting.add(trial_id)
        self._started_at[number] = time.monotonic()
        self._changed(record)
        return {"number": number, "params": dict(record.params)}

    def _trial(self, number: int) -> optuna.trial.FrozenTrial:
        trial = find_trial(self._study, number)
        assert trial is not None
        return trial

    def spent(self) -> bool:
        """Return True if no new trial may start."""
        # Tune asks ten times a second while the last trials run, and no budget comes back.
        self._spent = self._spent or self._reaches_budget()
        return self._spent

    def _reaches_budget(self) -> bool:
        hours, teachers = self._config.budget_hours, self._config.budget_teacher_seconds
        every = self._study.get_trials(deepcopy=False)
        if hours is None and teachers is None and len(every) < self._config.trials:
            return False
        again = retried(every)
        trials = [t for t in every if not t.user_attrs.get("origin") and t.number not in again]
        started = [trial for trial in trials if trial.state != TrialState.WAITING]
        own = set(self._numbers.values())  # of this start, which count by its wall time
        earlier = _sum([trial for trial in started if trial.number not in own], "seconds")
        spent = (time.monotonic() - self._start + earlier) / 3600
        return (
            len(started) >= self._config.trials
            or (hours is not None and spent >= hours)
            or (teachers is not None and _sum(started, "teacher_seconds") >= teachers)
        )

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Record an intermediate result."""
        number = self._numbers.get(trial_id)
        if number is None or "step" not in result or len(self._config.metric) > 1:
            return
        tell_report(self._study, number, int(result["step"]), float(result[self._config.metric[0]]))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Record the end of a trial: complete, stopped by the scheduler, or its process died for
        good.
        """
        number = self._numbers.get(trial_id)
        if number is None:
            return
        self._end(trial_id, failure=_DIED if error or ENDED in (result or {}) else "")

    def on_trial_start(self, trial_id: str) -> None:
        """Record that a process has taken up a trial, which may have waited for it; the first time,
        not after its death.
        """
        if trial_id in self._waiting:
            self._waiting.remove(trial_id)
            self._started_at[self._numbers[trial_id]] = time.monotonic()

    def _end(self, trial_id: str, failure: str) -> None:
        """Record the end of a trial; ``failure`` is the reason if it failed, else empty."""
        number = self._numbers[trial_id]
        self._running.discard(trial_id)
        record = trial_record.read(self._directory, number)
        record = record or record_of(self._study, self._trial(number))
        if not record.ended:
            record = self._unfinished_end(record, failure)
            trial_record.write(self._directory, record)
        tell_outcome(self._study, record)
        self._changed(record)

    def _unfinished_end(self, record: Record, failure: str) -> Record:
        """Return the record of a trial that wrote none: stopped by the scheduler, or failed."""
        place = trial_record.trial_directory(self._directory, record.number)
        reports = trial_record.read_reports(place)
        seconds = record.seconds + time.monotonic() - self._started_at[record.number]
        if failure or not reports:
            return replace(record, state="failed", reason=failure or _DIED, seconds=seconds)
        last = reports[-1]
        reason = f"stopped by {self._config.scheduler} at step {last.step}"
        values = (last.value,)
        return replace(record, state="pruned", values=values, reason=reason, seconds=seconds)

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: all state is in the study and the directories."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing: all state is in the study and the directories."""


def _sum(trials: list[optuna.trial.FrozenTrial], attribute: str) -> float:
    return sum(float(trial.user_attrs.get(attribute, 0.0)) for trial in trials)
