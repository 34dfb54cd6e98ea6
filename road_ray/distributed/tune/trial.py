"""One trial inside an actor of Ray Tune: runs, reports, and always ends with a record.

Whatever goes wrong is written down as a failed trial; only the death of the process itself is left
to Tune, which starts the trial again: it goes on from its own checkpoints.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from ray import tune

from road_ray.distributed.connection import enter_directory
from road_ray.distributed.tune import trial_record
from road_ray.distributed.tune.lock import hold_trial_lock
from road_ray.distributed.tune.pbt import copy_donor_checkpoint
from road_ray.distributed.tune.schedulers import to_tune_result
from road_ray.distributed.tune.time_limit import HUNG, with_time_limit
from road_ray.distributed.tune.trial_record import Record, Report, Run
from road_ray.errors import DivergedError, RoadError

ENDED = "ended"  # in the last result of a trial: how
_LONGEST_REASON = 600


@dataclass(frozen=True)
class Work:
    """What every actor knows."""

    run: Run
    directory: Path  # of the sweep
    metric: str
    place: str  # working directory of the command
    threads: int = 1
    timeout_seconds: float | None = None


def perform(config: Mapping[str, Any], work: Work) -> None:
    """The function that Tune runs: trial ``config["number"]`` with ``config["params"]``."""
    enter_directory(work.place)
    hold_trial_lock(work.directory)
    torch.set_num_threads(work.threads)
    number = int(config["number"])
    begun = trial_record.read(work.directory, number) or Record(number, config["params"])
    if not begun.ended:
        begun = _ran(begun, work)
        trial_record.write(work.directory, begun)
    tune.report({ENDED: begun.state, **dict(zip((work.metric,), begun.values, strict=False))})


def _ran(record: Record, work: Work) -> Record:
    """The record after the run. Never raises, but for the ``SystemExit`` of a stopped trial."""
    place = trial_record.trial_directory(work.directory, record.number)
    if (place / HUNG).is_file() and (place / HUNG).stat().st_size:
        reason = f"did not end within {work.timeout_seconds:g} s; where it stood: {place / HUNG}"
        return replace(record, state="failed", reason=reason)
    told = {report.step for report in trial_record.read_reports(place)}
    began = time.monotonic()

    def tell(report: Report) -> None:
        if report.step in told or not math.isfinite(report.value):
            return
        told.add(report.step)
        trial_record.add_report(place, report)
        tune.report(to_tune_result(report, work.metric))

    try:
        if record.parent is not None:
            donor = trial_record.trial_directory(work.directory, record.parent)
            copy_donor_checkpoint(donor, place, record.parent_step)
        with with_time_limit(work.timeout_seconds, place / HUNG):
            outcome = work.run(place, record.params, tell)
    except Exception as error:
        _keep_traceback(error, place / "error.txt")
        spent = record.seconds + time.monotonic() - began
        return replace(record, state="failed", reason=reason_of(error), seconds=spent)
    bad = [value for value in outcome.values if not math.isfinite(value)]
    return replace(
        record,
        state="failed" if bad else "complete",
        reason=f"the figure it is judged by is {bad[0]}" if bad else "",
        values=() if bad else tuple(outcome.values),
        deviation=tuple(outcome.deviation),
        figures=dict(outcome.figures),
        seconds=record.seconds + time.monotonic() - began,
        teacher_seconds=outcome.teacher_seconds,
    )


def _keep_traceback(error: Exception, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")


def reason_of(error: BaseException) -> str:
    """Why a trial failed, in a line or a few."""
    if isinstance(error, DivergedError):
        return f"diverged: {error}"[:_LONGEST_REASON]
    if isinstance(error, RoadError):
        return str(error)[:_LONGEST_REASON]
    return f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
