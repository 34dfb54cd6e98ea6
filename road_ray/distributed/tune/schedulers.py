"""Schedulers of Ray Tune over the share of a trial's own steps, told again after a restart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ray.tune.schedulers import (
    AsyncHyperBandScheduler,
    FIFOScheduler,
    MedianStoppingRule,
    TrialScheduler,
)

from road_ray.distributed.tune.config import SearchConfig
from road_ray.distributed.tune.pbt import PERCENT, Breed, PopulationBasedScheduler
from road_ray.distributed.tune.trial_record import Report


@dataclass(frozen=True)
class _Earlier:
    """A trial of an earlier start, as schedulers see one."""

    trial_id: str
    config: dict[str, Any] = field(default_factory=dict, hash=False)


def scheduler(
    config: SearchConfig, breed: Breed = lambda number, donor, step: None
) -> TrialScheduler:
    """The configured scheduler; its time is `percent`, whatever Tune counts."""
    judged: dict[str, Any] = {"metric": config.metric[0], "mode": config.mode[0]}
    if config.scheduler in ("asha", "hyperband"):
        return AsyncHyperBandScheduler(
            time_attr=PERCENT,
            max_t=100,
            grace_period=config.grace_percent,
            reduction_factor=config.reduction,
            brackets=1 if config.scheduler == "asha" else _brackets(config),
            stop_last_trials=False,  # a trial at its end is complete
            **judged,
        )
    if config.scheduler == "median":
        return MedianStoppingRule(
            time_attr=PERCENT,
            grace_period=config.grace_percent,
            min_time_slice=math.inf,  # never paused to let others go first
            **judged,
        )
    return PopulationBasedScheduler(config, breed) if config.scheduler == "pbt" else FIFOScheduler()


def _brackets(config: SearchConfig) -> int:
    """One for every rung to begin at, and one that stops nobody: HyperBand's hedge against figures
    that mislead early on. None waits for others, so that no trial is paused and begun again.

    Source: Li et al. 2020 (ASHA), section 3.3: asynchronous HyperBand loops through brackets.
    """
    return int(math.log(100 / config.grace_percent) / math.log(config.reduction) + 1e-9) + 1


def replay_reports(
    target: TrialScheduler, told: Mapping[int, Sequence[Report]], metric: str
) -> None:
    """Tell a new scheduler what earlier trials reported, so that later ones are measured by them:
    a restarted sweep stops what an uninterrupted one would have stopped.
    """
    for number, reports in told.items():
        trial: Any = _Earlier(f"earlier-{number}", {"number": number, "told": True})
        target.on_trial_add(None, trial)
        for report in reports:
            target.on_trial_result(None, trial, to_tune_result(report, metric))
        if reports:
            target.on_trial_complete(None, trial, to_tune_result(reports[-1], metric))


def to_tune_result(report: Report, metric: str) -> dict[str, Any]:
    """A report as Tune passes it around."""
    return {PERCENT: report.percent, "step": report.step, metric: report.value}
