"""Searcher of Ray Tune over an Optuna study, and the schedulers that stop its trials early.

``OptunaSearch`` fails on a study that is ahead of its pickled state, marks stopped trials as
complete, and resamples running trials. Here all state is in the study. The time of a scheduler is
the share of a trial's steps; reports are replayed after a restart.
"""

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState
from ray.tune.schedulers import (
    AsyncHyperBandScheduler,
    FIFOScheduler,
    MedianStoppingRule,
    TrialScheduler,
)
from ray.tune.search import Searcher

from road_ray.distributed.ray_private import forget_stopped_trials
from road_ray.distributed.tune import one_trial
from road_ray.distributed.tune.one_trial import PERCENT, RECORD, Record, to_tune_result
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.study import (
    TOTAL,
    distributions,
    find_trial,
    record_of,
    retried,
    tell_outcome,
    tell_report,
)
from road_ray.errors import ResourceError, first_line

_log = logging.getLogger(__name__)


class StudySearch(Searcher):  # type: ignore[misc]
    """Searcher that resumes the running trials of an interrupted sweep and then samples new ones,
    until a budget is spent.
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
        self._numbers: dict[str, int] = {}  # by Tune's trial id
        self._spent = False
        self._space = distributions(config.space)
        trials = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        self._unfinished = [trial.number for trial in trials]
        self._start = time.monotonic() - sum(self._time_of(n)[0] for n in self._unfinished)

    def suggest(self, trial_id: str) -> Any:
        """Return number and values of the next trial, or a marker that there will be none."""
        if self._unfinished:
            number = self._unfinished.pop(0)
        elif not self.spent():
            number = self._study.ask(fixed_distributions=self._space).number
        else:
            return Searcher.FINISHED
        record = self._write(number)
        self._numbers[trial_id] = number
        return {"number": number, "params": dict(record.params)}

    def _write(self, number: int) -> Record:
        """Write the record of a trial as the study has it, tell that it changed, and return it."""
        record = record_of(find_trial(self._study, number))
        try:
            one_trial.write(self._directory, record)
        except ResourceError as error:  # of a full disk; the next start writes it from the study
            _log.warning("%s", first_line(error))
        self._changed(record)
        return record

    def _time_of(self, number: int) -> tuple[float, float]:
        return one_trial.spent(one_trial.trial_directory(self._directory, number))

    def spent(self) -> bool:
        """Return True if no new trial may start."""
        # Tune asks ten times a second while the last trials run, and no budget comes back.
        if self._spent:
            return True
        hours, teachers = self._config.budget_hours, self._config.budget_teacher_seconds
        every = self._study.get_trials(deepcopy=False)
        if hours is None and teachers is None and len(every) < self._config.most_trials:
            return False
        again = retried(every)
        trials = [trial for trial in every if not trial.user_attrs.get("origin")]
        started = [trial for trial in trials if trial.state != TrialState.WAITING]
        own = set(self._numbers.values())  # of this start, which count by its wall time
        earlier = _sum([trial for trial in started if trial.number not in own], "seconds")
        spent = (time.monotonic() - self._start + earlier) / 3600
        running = [trial.number for trial in started if trial.state == TrialState.RUNNING]
        taught = _sum(started, "teacher_seconds") + sum(self._time_of(n)[1] for n in running)
        self._spent = (
            sum(trial.number not in again for trial in started) >= self._config.most_trials
            or (hours is not None and spent >= hours)
            or (teachers is not None and taught >= teachers)
        )
        return self._spent

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Record an intermediate result."""
        if "step" in result and len(self._config.metric) == 1:
            number, value = self._numbers[trial_id], float(result[self._config.metric[0]])
            tell_report(self._study, number, result["step"], result["total"], value)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Record the end of a trial: complete or failed as its process tells, else stopped by the
        scheduler, or its process died for good.
        """
        number = self._numbers[trial_id]
        if result and RECORD in result and not error:
            record = result[RECORD]
        else:
            # Tune tells the report at which the scheduler stops a trial here alone.
            self.on_trial_result(trial_id, result or {})
            trial = find_trial(self._study, number)
            state, reason = "failed", "its process died repeatedly (out of memory?)"
            if trial.intermediate_values and not error:
                step = max(trial.intermediate_values)
                state, reason = "pruned", f"stopped by {self._config.scheduler} at step {step}"
            seconds, taught = self._time_of(number)
            record = replace(
                record_of(trial),
                state=state,
                reason=reason,
                seconds=seconds,
                teacher_seconds=taught,
            )
        tell_outcome(self._study, record)
        self._write(number)

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: all state is in the study and the directories."""


def _sum(trials: list[FrozenTrial], attribute: str) -> float:
    return sum(float(trial.user_attrs.get(attribute, 0.0)) for trial in trials)


@dataclass(frozen=True, eq=False)
class _Earlier:
    """A trial of an earlier start, as schedulers see it."""

    trial_id: str
    config: Mapping[str, Any] = field(default_factory=dict)


def scheduler(config: SearchConfig, trials: Iterable[FrozenTrial] = ()) -> TrialScheduler:
    """Return the configured scheduler; its time is the percentage of a trial's steps. It is fed the
    reports of earlier starts, those of running trials when Tune adds these again, so that a
    restarted sweep stops the trials that an uninterrupted one would stop.
    """
    metric = config.metric[0]
    objective: dict[str, Any] = {"metric": metric, "mode": config.mode[0]}
    if config.scheduler == "none":
        return FIFOScheduler()
    if config.scheduler == "median":
        chosen: Any = MedianStoppingRule(
            time_attr=PERCENT,
            grace_period=config.grace_percent,
            min_time_slice=math.inf,  # never paused in favour of others
            **objective,
        )
        # Ray's appends the last result of a trial, which has no share of the steps, and fails.
        chosen.on_trial_complete = lambda *_: None
    else:
        # HyperBand: a bracket for each starting rung, and one that stops no trial, as its hedge
        # against misleading early metrics. They are asynchronous, so no trial is paused (Li et al.
        # 2020, ASHA, section 3.3).
        rungs = math.ceil(math.log(100 / config.grace_percent) / math.log(config.reduction) - 1e-9)
        chosen = AsyncHyperBandScheduler(
            time_attr=PERCENT,
            max_t=100,
            grace_period=config.grace_percent,
            reduction_factor=config.reduction,
            brackets=1 if config.scheduler == "asha" else rungs + 1,
            stop_last_trials=False,  # a trial that reaches its end is complete
            **objective,
        )
    known, add = {trial.number: trial for trial in trials}, chosen.on_trial_add

    def add_with_reports(controller: Any, trial: Any) -> None:
        add(controller, trial)
        earlier: Any = known.get(trial.config.get("number"))
        for step, value in sorted(earlier.intermediate_values.items()) if earlier else ():
            result = to_tune_result(step, earlier.user_attrs[TOTAL], value, metric)
            chosen.on_trial_result(controller, trial, result)
            forget_stopped_trials(chosen)

    chosen.on_trial_add = add_with_reports
    for number, earlier in known.items():
        if earlier.state.is_finished():
            chosen.on_trial_add(None, _Earlier(f"earlier-{number}", {"number": number}))
    return chosen
