"""Schedulers of Ray Tune over the share of a trial's steps; reports are replayed after a
restart.
"""

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

from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.trial_record import Report

PERCENT = "percent"  # time attribute: progress of a trial in percent of its steps


@dataclass(frozen=True)
class _Earlier:
    """A trial of an earlier start, as schedulers see it."""

    trial_id: str
    config: dict[str, Any] = field(default_factory=dict, hash=False)


def scheduler(
    config: SearchConfig, earlier: Mapping[int, Sequence[Report]] | None = None
) -> TrialScheduler:
    """Return the configured scheduler; its time is the percentage of a trial's steps. It is fed the
    reports of ``earlier`` trials, so that a restarted sweep stops the trials that an uninterrupted
    one would stop.
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
    else:
        # HyperBand: a bracket for each starting rung, and one that stops no trial, as its hedge
        # against misleading early metrics. They are asynchronous, so no trial is paused (Li et al.
        # 2020, ASHA, section 3.3).
        rungs = int(math.log(100 / config.grace_percent) / math.log(config.reduction) + 1e-9)
        chosen = AsyncHyperBandScheduler(
            time_attr=PERCENT,
            max_t=100,
            grace_period=config.grace_percent,
            reduction_factor=config.reduction,
            brackets=1 if config.scheduler == "asha" else rungs + 1,
            stop_last_trials=False,  # a trial that reaches its end is complete
            **objective,
        )
    for number, reports in (earlier or {}).items():
        trial = _Earlier(f"earlier-{number}", {"number": number, "replayed": True})
        results = [to_tune_result(report, metric) for report in reports]
        chosen.on_trial_add(None, trial)
        for result in results:
            chosen.on_trial_result(None, trial, result)
        if results:
            chosen.on_trial_complete(None, trial, results[-1])
    return chosen


def to_tune_result(report: Report, metric: str) -> dict[str, Any]:
    """Return a report as a result of Tune."""
    percent = 100.0 * report.step / report.total
    return {PERCENT: percent, "step": report.step, "total": report.total, metric: report.value}
