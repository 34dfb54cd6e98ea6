"""Optuna study of a sweep: the truth about its trials. Their records are output."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from road_ray.distributed.tune import trial_record
from road_ray.distributed.tune.search_config import Range, SearchConfig, encode_choice, grid_of
from road_ray.distributed.tune.study_storage import (
    DAMAGED_REMEDY,
    IDENTITY,
    JOURNAL,
    open_storage,
    sampler,
)
from road_ray.distributed.tune.trial_record import Record, Report
from road_ray.errors import ResourceError

_log = logging.getLogger(__name__)
STATES = {
    "running": TrialState.RUNNING,
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
_TOTAL = "total_steps"  # attribute of a trial
_ATTRIBUTES = (  # fields of a record for which Optuna has no field
    *("deviation", "figures", "reason", "seconds", "teacher_seconds"),
    *("origin", "retry_of"),
)


def open_study(config: SearchConfig, name: str, directory: Path) -> optuna.Study:
    """Return the study. The caller holds the sweep lock.

    Raises ``ConfigError`` for a study of another space or sweep under this name, ``ResourceError``
    for a storage that is damaged, of another sweep or cannot be opened.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    directory.mkdir(parents=True, exist_ok=True)
    study = open_storage(config, name, directory)
    _bring_up_to_date(study, directory, config)
    _add_earlier_trials(study, directory, config)
    # After the trials of earlier starts are in: a restart draws others.
    started = [t for t in study.get_trials(deepcopy=False) if t.state != TrialState.WAITING]
    study.sampler = sampler(config, config.seed + len(started))
    _enqueue(study, config)
    if config.retry_failed:
        _enqueue_failed(study)
    return study


def distributions(space: Mapping[str, Range]) -> dict[str, BaseDistribution]:
    """Return the space as distributions of Optuna."""
    return {key: _distribution(scope) for key, scope in space.items()}


def _distribution(scope: Range) -> BaseDistribution:
    if scope.choice is not None:
        return CategoricalDistribution([encode_choice(choice) for choice in scope.choice])
    low, high = scope.bounds
    log = scope.kind.startswith("log")
    if scope.kind.endswith("int"):
        return IntDistribution(int(low), int(high), log=log)
    return FloatDistribution(low, high, log=log)


def _enqueue(study: optuna.Study, config: SearchConfig) -> None:
    """Enqueue the given points, and those of a grid, each once over all starts."""
    points = [
        {key: encode_choice(value) for key, value in point.items()} for point in config.points
    ]
    if config.sampler == "grid":
        grids = [[(key, value) for value in grid_of(scope)] for key, scope in config.space.items()]
        full = [dict(point) for point in product(*grids)]
        random.Random(config.seed).shuffle(full)
        points += full
    # Not `skip_if_exists`, which compares each point with every trial.
    trials = study.get_trials(deepcopy=False)
    known = {_identity(t.system_attrs.get("fixed_params", t.params)) for t in trials}
    new: dict[str, dict[str, Any]] = {}  # each point once
    for point in points:
        new.setdefault(_identity(point), point)
    for identity, point in [*new.items()][: config.trials]:
        if identity not in known:
            study.enqueue_trial(point)


def _identity(point: Mapping[str, Any]) -> str:
    """Return a text that is equal for equal values; 1 is 1.0, and not True."""
    plain = {
        key: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
        for key, value in point.items()
    }
    return json.dumps(plain, sort_keys=True)


def _enqueue_failed(study: optuna.Study) -> None:
    """Enqueue the values of each failed trial that was not tried again."""
    trials = study.get_trials(deepcopy=False)
    again = retried(trials)
    for trial in trials:
        if trial.state == TrialState.FAIL and trial.params and trial.number not in again:
            study.enqueue_trial(dict(trial.params), user_attrs={"retry_of": trial.number})


def retried(trials: Sequence[FrozenTrial]) -> set[int]:
    """Return the numbers of the trials whose values another trial tries again."""
    numbers = (trial.user_attrs.get("retry_of") for trial in trials)
    return {number for number in numbers if number is not None}


def _bring_up_to_date(study: optuna.Study, directory: Path, config: SearchConfig) -> None:
    """Draw the values of trials that were killed before all were drawn, and write the records of
    those that ended, as the study has them.

    Raises ``ResourceError`` for a study that does not belong to the records.
    """
    trials, own = study.get_trials(deepcopy=False), study.user_attrs[IDENTITY]
    for number in trial_record.trial_numbers(directory):
        record = trial_record.read(directory, number)
        # A study that lost its last line would draw the values of a running trial anew.
        if number >= len(trials) or (
            record is not None and (record.study, record.params) != (own, trials[number].params)
        ):
            raise ResourceError(
                f"{trial_record.path_of(directory, number)}: is of another sweep than "
                f"{directory / JOURNAL} (or the sweep's storage), or that is not whole\n"
                f"{DAMAGED_REMEDY}"
            )
    for trial in trials:
        if trial.state.is_finished():
            record = record_of(study, trial)
            if record != trial_record.read(directory, trial.number):
                trial_record.write(directory, record)
        elif trial.state == TrialState.RUNNING:
            live_trial = optuna.Trial(study, trial._trial_id)
            for key, distribution in distributions(config.space).items():
                if key not in trial.params:
                    live_trial._suggest(key, distribution)


def _add_earlier_trials(study: optuna.Study, directory: Path, config: SearchConfig) -> None:
    """Add the finished trials of earlier sweeps to the study, each once."""
    known = {trial.user_attrs.get("origin") for trial in study.get_trials(deepcopy=False)}
    for earlier in config.warm_from:
        for number in trial_record.trial_numbers(earlier):
            origin = f"{earlier}#{number}"
            record = trial_record.read(earlier, number)
            if record is None or record.state != "complete" or record.origin or origin in known:
                continue
            try:
                copied = optuna.trial.create_trial(
                    params=dict(record.params),
                    distributions=distributions(config.space),
                    values=list(record.values),
                    user_attrs=_attributes(replace(record, origin=origin)),
                )
            except (ValueError, TypeError):
                _log.warning("%s: its values are outside this space; left out", origin)
                continue
            study.add_trial(copied)
            trial_record.write(directory, record_of(study, study.get_trials(deepcopy=False)[-1]))


def _attributes(record: Record) -> dict[str, Any]:
    """Return the fields of a record that the study has as attributes of a trial."""
    return {name: value for name, value in asdict(record).items() if name in _ATTRIBUTES}


def tell_outcome(study: optuna.Study, record: Record) -> None:
    """Record the end of a trial in the study."""
    trial = optuna.Trial(study, find_trial(study, record.number)._trial_id)
    empty = _attributes(Record(record.number, {}))
    for name, value in _attributes(record).items():
        if value != empty[name]:  # each is a write to the disk
            trial.set_user_attr(name, value)
    state = STATES[record.state]
    values = list(record.values) if state == TrialState.COMPLETE else None
    study.tell(record.number, values, state=state)


def tell_report(study: optuna.Study, number: int, report: Report) -> None:
    """Record an intermediate figure in the study, once per step."""
    frozen = find_trial(study, number)
    if report.step in frozen.intermediate_values:  # a trial that went back to its checkpoint
        return
    trial = optuna.Trial(study, frozen._trial_id)
    if _TOTAL not in frozen.user_attrs:
        trial.set_user_attr(_TOTAL, report.total)
    trial.report(report.value, report.step)


def reports_of_ended(study: optuna.Study) -> dict[int, list[Report]]:
    """Return the intermediate figures of the trials that have ended, by their number."""
    return {
        trial.number: [
            Report(step, trial.user_attrs[_TOTAL], value)
            for step, value in sorted(trial.intermediate_values.items())
        ]
        for trial in study.get_trials(deepcopy=False)
        if trial.state.is_finished()
    }


def find_trial(study: optuna.Study, number: int) -> FrozenTrial:
    """Return one trial. ``study.get_trials`` lists them all, 3 ms for 5,000."""
    storage = study._storage
    return storage.get_trial(
        storage.get_trial_id_from_study_id_trial_number(study._study_id, number)
    )


def records_of(study: optuna.Study) -> list[Record]:
    """Return the record of every trial that was started."""
    trials = study.get_trials(deepcopy=False)
    return [record_of(study, trial) for trial in trials if trial.state != TrialState.WAITING]


def record_of(study: optuna.Study, trial: FrozenTrial) -> Record:
    """Return the record of a trial, from the study."""
    names = {state: name for name, state in STATES.items()}
    known = {name: trial.user_attrs[name] for name in _ATTRIBUTES if name in trial.user_attrs}
    known["deviation"] = tuple(known.get("deviation", ()))
    return Record(
        number=trial.number,
        params=dict(trial.params),
        state=names.get(trial.state, "running"),
        values=tuple(trial.values or ()),
        study=study.user_attrs[IDENTITY],
        **known,
    )
