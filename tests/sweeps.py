"""Sweeps that an earlier start has left behind."""

from dataclasses import replace

from road_ray.distributed.tune import one_trial
from road_ray.distributed.tune.one_trial import Record
from road_ray.distributed.tune.study import distributions, open_study, record_of, tell_outcome
from road_ray.recipes.sweep.config import SweepConfig


def leave_trials(config: SweepConfig, *records: Record) -> None:
    """Start a trial with the values of each record, and end it."""
    study = open_study(config, config.name, config.directory)
    for record in records:
        study.enqueue_trial(dict(record.params))
        number = study.ask(fixed_distributions=distributions(config.space)).number
        if record.state != "running":
            tell_outcome(study, replace(record, number=number))
        one_trial.write(config.directory, record_of(study.trials[number]))
