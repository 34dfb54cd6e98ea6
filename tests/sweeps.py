"""Sweeps that an earlier start has left behind, and studies in memory."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import optuna
from optuna.distributions import FloatDistribution
from optuna.trial import create_trial

from road_ray.distributed.tune import one_trial
from road_ray.distributed.tune.one_trial import Record
from road_ray.distributed.tune.study import ask, open_study, record_of, tell_outcome
from road_ray.recipes.sweep.config import SweepConfig


def leave_trials(config: SweepConfig, *records: Record) -> None:
    """Start a trial with the values of each record, and end it."""
    study = open_study(config, config.name, config.directory)
    for record in records:
        study.enqueue_trial(dict(record.params))
        number = ask(study, config).number
        if record.state != "running":
            tell_outcome(study, replace(record, number=number))
        one_trial.write(config.directory, record_of(study.trials[number]))


def study_of(
    trials: Sequence[tuple[Mapping[str, float], Sequence[float]]],
    metrics: Sequence[str] = ("m",),
    direction: str = "maximize",
    **details: Any,
) -> optuna.Study:
    """A study of complete trials: keys and values of each; ``details`` are those of all trials."""
    study = optuna.create_study(study_name="s", directions=[direction] * len(metrics))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names([*metrics])
    high = max((value for params, _ in trials for value in params.values()), default=1.0)
    for params, values in trials:
        space = dict.fromkeys(params, FloatDistribution(0, high))
        told = {"params": params, "distributions": space, "values": values}
        study.add_trial(create_trial(**told, **details))
    return study
