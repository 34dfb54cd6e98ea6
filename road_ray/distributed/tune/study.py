"""Optuna study of a sweep, in a journal of its directory: the truth about its trials, whose records
are output.

Private names of Optuna 5 are used here alone: ``_trial_id``, by which a process goes on with a
trial of another one, and ``_suggest``, which draws a value from a distribution.
"""

import math
import random
import warnings
from bisect import bisect, bisect_left
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count, takewhile
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from road_ray.distributed.tune import one_trial
from road_ray.distributed.tune.one_trial import Record
from road_ray.distributed.tune.search_config import Range, SearchConfig, encode_choice, identity
from road_ray.errors import ResourceError, first_line
from road_ray.training.monitoring.metrics_journal import cut_torn_line

JOURNAL = "study.journal"
DAMAGED_REMEDY = (
    "  fix: put back a copy of it, or start another sweep (name, run_dir) with the values of the "
    "best trials, in their trial.json, as points\n  kept: the sweep, as it is"
)
STATES = {
    "running": TrialState.RUNNING,
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
TOTAL = "total_steps"  # attribute of a trial
# Fields of a record for which Optuna has no field.
_ATTRIBUTES = ("deviation", "figures", "reason", "seconds", "retry_of")


def open_study(config: SearchConfig, name: str, directory: Path) -> optuna.Study:
    """Return the study. The caller holds the lock of the directory.

    Raises ``ResourceError`` for a study that is damaged, of another sweep or cannot be opened.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    directory.mkdir(parents=True, exist_ok=True)
    study = _open_journal(config, name, directory / JOURNAL)
    _bring_up_to_date(study, directory)
    # A restart draws others.
    study.sampler = sampler(config, config.seed + len(records_of(study)))
    _enqueue(study, config)
    return study


def _open_journal(config: SearchConfig, name: str, path: Path) -> optuna.Study:
    """Return the study of a journal, created if there is none."""
    directions = ["maximize" if mode == "max" else "minimize" for mode in config.mode]
    try:
        path.with_name(JOURNAL + ".lock").unlink(missing_ok=True)  # of a killed process
        cut_torn_line(path)
        study = optuna.create_study(
            study_name=name,
            storage=JournalStorage(JournalFileBackend(str(path))),
            directions=directions,
            load_if_exists=True,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names(list(config.metric))
        return study
    except Exception as error:  # Optuna replays what it reads without checks
        raise ResourceError(
            f"{path}: cannot be used: {first_line(error)}\n{DAMAGED_REMEDY}"
        ) from error


def sampler(config: SearchConfig, seed: int) -> Any:
    """Return Optuna's sampler of a configuration."""
    samplers = optuna.samplers
    if config.sampler == "gp":
        return samplers.GPSampler(seed=seed)
    if config.sampler == "nsga2":
        return samplers.NSGAIISampler(seed=seed, population_size=max(4, config.trials // 4))
    if config.sampler in ("random", "grid"):  # the points of a grid are enqueued
        return samplers.RandomSampler(seed=seed)
    startup = max(2, min(10, config.trials // 3))
    return samplers.TPESampler(seed=seed, n_startup_trials=startup)


def distributions(space: Mapping[str, Range]) -> dict[str, BaseDistribution]:
    """Return the space as distributions of Optuna."""
    found: dict[str, BaseDistribution] = {}
    for key, scope in space.items():
        if scope.choice is not None:
            found[key] = CategoricalDistribution([encode_choice(value) for value in scope.choice])
            continue
        kind: Any = IntDistribution if scope.int else FloatDistribution
        found[key] = kind(*scope.bounds, log=scope.loguniform is not None)
    return found


def _enqueue(study: optuna.Study, config: SearchConfig) -> None:
    """Enqueue the given points, those of a grid, and the values of failed trials on request, each
    once over all starts.
    """
    # Not `skip_if_exists`, which compares each point with every trial.
    trials = study.get_trials(deepcopy=False)
    known = {identity(t.system_attrs.get("fixed_params", t.params)) for t in trials}
    for point_identity, point in [*config.first.items()][: config.trials]:
        if point_identity not in known:
            study.enqueue_trial(dict(point))
    again = retried(trials)
    for trial in trials if config.retry_failed else ():
        if trial.state == TrialState.FAIL and trial.params and trial.number not in again:
            study.enqueue_trial(dict(trial.params), user_attrs={"retry_of": trial.number})


def begun(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the trials that run or have ended, without those that an earlier version copied from
    another sweep.
    """
    every = [trial for trial in trials if trial.state != TrialState.WAITING]
    return [trial for trial in every if not trial.user_attrs.get("origin")]


def retried(trials: Sequence[FrozenTrial]) -> set[int]:
    """Return the numbers of the trials whose values another trial tries again."""
    return {trial.user_attrs.get("retry_of") for trial in trials} - {None}


def _bring_up_to_date(study: optuna.Study, directory: Path) -> None:
    """Write the records of trials that ended, as the study has them. Raises ``ResourceError`` for a
    study that does not belong to the records.
    """
    trials = study.get_trials(deepcopy=False)
    for number in one_trial.trial_numbers(directory):
        record = one_trial.read(directory, number)
        # A study that lost its last line would draw the values of a running trial anew.
        if number >= len(trials) or (record is not None and record.params != trials[number].params):
            raise ResourceError(
                f"{one_trial.path_of(directory, number)}: is of another sweep than "
                f"{directory / JOURNAL}, or that is not whole\n"
                f"{DAMAGED_REMEDY}"
            )
    for trial in trials:
        record = record_of(trial)
        if trial.state.is_finished() and record != one_trial.read(directory, trial.number):
            one_trial.write(directory, record)


def ask(study: optuna.Study, config: SearchConfig, number: int | None = None) -> Record:
    """Return a new trial with drawn values, or that with a ``number``, whose process was killed,
    perhaps before all were drawn.
    """
    trial = (
        study.ask() if number is None else optuna.Trial(study, find_trial(study, number)._trial_id)
    )
    for key, distribution in distributions(config.space).items():
        trial._suggest(key, distribution)  # one that is drawn stays
    return record_of(find_trial(study, trial.number))


def tell_outcome(study: optuna.Study, record: Record) -> None:
    """Record the end of a trial in the study."""
    trial = optuna.Trial(study, find_trial(study, record.number)._trial_id)
    for name in _ATTRIBUTES:
        if value := getattr(record, name):  # each is a write to the disk
            trial.set_user_attr(name, value)
    state = STATES[record.state]
    values = list(record.values) if state == TrialState.COMPLETE else None
    study.tell(record.number, values, state=state)


def tell_report(study: optuna.Study, number: int, step: int, total: int, value: float) -> bool:
    """Record an intermediate metric in the study, once per step; return True for a new step."""
    frozen = find_trial(study, number)
    if step in frozen.intermediate_values:  # a trial that went back to its checkpoint
        return False
    trial = optuna.Trial(study, frozen._trial_id)
    if TOTAL not in frozen.user_attrs:
        trial.set_user_attr(TOTAL, total)
    trial.report(value, step)
    return True


def should_stop(config: SearchConfig, trials: Sequence[FrozenTrial], number: int) -> bool:
    """Return True if the scheduler ends a trial at its last report, by those of all trials so far,
    earlier starts included. Time is the percentage of a trial's steps.

    The decisions are those of Ray Tune's schedulers, whose memory ends with the driver.
    Asynchronous successive halving (Li et al. 2020) compares a trial once at each rung, the
    multiples of ``grace_percent`` by ``reduction``. HyperBand has a bracket for each starting rung,
    and one that ends no trial, as its hedge against misleading early metrics. The median rule
    compares the best report of a trial with the means of the others until then.
    """
    grace, sign = config.grace_percent, 1.0 if config.mode[0] == "max" else -1.0
    own, last = trials[number].intermediate_values, max(trials[number].intermediate_values)
    now, value = 100 * last / trials[number].user_attrs[TOTAL], sign * own[last]
    if config.scheduler == "none" or now < grace:
        return False
    others = [trial for trial in trials if trial.number != number and trial.intermediate_values]
    if config.scheduler == "median":
        means = []
        for trial in others:
            told, total = trial.intermediate_values, trial.user_attrs[TOTAL]
            if 100 * max(told) / total >= now:
                counted = [told[step] for step in told if grace <= 100 * step / total <= now]
                means += [sign * fmean(counted)] if counted else []
        return len(means) >= 3 and max(sign * x for x in own.values()) < median(means)
    rungs = [*takewhile(lambda at: at < 100 - 1e-9, (grace * config.reduction**n for n in count()))]
    rung, skipped = bisect(rungs, now), 0
    end = [*rungs, math.inf][rung]
    if config.scheduler == "hyperband":
        skipped = _skipped_rungs(number, len(rungs))
        others = [x for x in others if _skipped_rungs(x.number, len(rungs)) == skipped]

    def steps_at_rung(trial: FrozenTrial) -> list[int]:  # the first two, found without the others
        total, steps = trial.user_attrs[TOTAL], sorted(trial.intermediate_values)
        start = bisect_left(steps, rungs[rung - 1], key=lambda step: 100 * step / total)
        return [step for step in steps[start : start + 2] if 100 * step / total < end]

    if rung <= skipped or len(steps_at_rung(trials[number])) > 1:
        return False
    first = [(trial, step) for trial in others for step in steps_at_rung(trial)[:1]]
    known = [sign * trial.intermediate_values[step] for trial, step in first]
    return bool(known) and value < float(np.percentile(known, 100 - 100 / config.reduction))


@cache  # of thousands of trials, which are all asked at each rung of one
def _skipped_rungs(number: int, rungs: int) -> int:
    """Return how many rungs a trial of HyperBand skips."""
    weights = [math.exp(-skipped) for skipped in range(rungs + 1)]
    (chosen,) = random.Random(number).choices(range(len(weights)), weights)
    return chosen


def find_trial(study: optuna.Study, number: int) -> FrozenTrial:
    """Return one trial."""
    return study.get_trials(deepcopy=False)[number]


def records_of(study: optuna.Study) -> list[Record]:
    """Return the record of every trial that was started."""
    return [record_of(trial) for trial in begun(study.get_trials(deepcopy=False))]


def record_of(trial: FrozenTrial) -> Record:
    """Return the record of a trial, from the study."""
    names = {state: name for name, state in STATES.items()}
    known = {name: trial.user_attrs[name] for name in _ATTRIBUTES if name in trial.user_attrs}
    known["deviation"] = tuple(known.get("deviation", ()))
    return Record(
        number=trial.number,
        params=dict(trial.params),
        state=names.get(trial.state, "running"),
        values=tuple(trial.values or ()),
        **known,
    )
