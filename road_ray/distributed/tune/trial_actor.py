"""One trial in an actor of Ray Tune: it runs, reports, and its last report is its record.

Every error becomes a failed trial. Only the death of the process is left to Tune, which restarts
the trial from its own checkpoints.
"""

from __future__ import annotations

import faulthandler
import fcntl
import math
import os
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from ray import tune

from road_ray.distributed.connection import driver_environment, variables_for_workers
from road_ray.distributed.tune import trial_record
from road_ray.distributed.tune.schedulers import to_tune_result
from road_ray.distributed.tune.trial_record import Record, Report, Run
from road_ray.errors import DivergedError, RoadError

RECORD = "record"  # key of a trial's record in its last result
HUNG = "hung.txt"  # the stack of a trial at its time limit
_LONGEST_REASON = 600
_CLEANUP_SECONDS = "60"  # of a stopped trial, before its actor is given up


@cache  # one descriptor for all trials of a process
def hold_trial_lock(directory: Path) -> None:
    """Share the trial lock of a sweep until this process ends."""
    # A plain descriptor stays open; a file object would be closed when it is collected.
    lock = os.open(directory / trial_record.TRIALS_LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_SH)


@dataclass(frozen=True)
class Work:
    """Settings that every trial's actor shares."""

    run: Run
    directory: Path  # of the sweep
    metric: str
    place: str  # working directory of the command
    threads: int = 1
    timeout_seconds: float | None = None
    variables: Mapping[str, str] = field(default_factory=variables_for_workers)  # of the command


def perform(config: Mapping[str, Any], work: Work) -> None:
    """Run trial ``config["number"]`` with ``config["params"]``: the trainable of Tune."""
    with driver_environment(work.place, work.variables):
        hold_trial_lock(work.directory)
        # Tune reads it in this process, and does not pass on the driver's.
        os.environ.setdefault("TUNE_FUNCTION_THREAD_TIMEOUT_S", _CLEANUP_SECONDS)
        torch.set_num_threads(work.threads)
        record = _run_trial(Record(int(config["number"]), config["params"]), work)
        value = {work.metric: record.values[0]} if record.values else {}
        tune.report({RECORD: trial_record.to_text(record), **value})


def _run_trial(record: Record, work: Work) -> Record:
    """Return the record after the run. Raises nothing but the ``SystemExit`` of a stopped trial."""
    directory = trial_record.trial_directory(work.directory, record.number)
    hung = directory / HUNG
    if hung.is_file() and hung.stat().st_size:
        reason = f"did not end within {work.timeout_seconds:g} s; its stack: {hung}"
        return replace(record, state="failed", reason=reason)
    began = time.monotonic()

    def on_report(report: Report) -> None:
        if math.isfinite(report.value):
            tune.report(to_tune_result(report, work.metric))

    try:
        with with_time_limit(work.timeout_seconds, hung):
            outcome = work.run(directory, record.params, on_report)
    except Exception as error:
        directory.mkdir(parents=True, exist_ok=True)
        lines = traceback.format_exception(error)
        (directory / "error.txt").write_text("".join(lines), encoding="utf-8")
        reason = str(error) if isinstance(error, RoadError) else f"{type(error).__name__}: {error}"
        if isinstance(error, DivergedError):
            reason = f"{trial_record.DIVERGED}: {reason}"
        spent = time.monotonic() - began
        return replace(record, state="failed", reason=reason[:_LONGEST_REASON], seconds=spent)
    bad = [value for value in outcome.values if not math.isfinite(value)]
    return replace(
        record,
        state="failed" if bad else "complete",
        reason=f"{trial_record.DIVERGED}: its metric is {bad[0]}" if bad else "",
        values=() if bad else tuple(outcome.values),
        deviation=tuple(outcome.deviation),
        figures=dict(outcome.figures),
        seconds=time.monotonic() - began,
        teacher_seconds=outcome.teacher_seconds,
    )


@contextmanager
def with_time_limit(seconds: float | None, path: Path) -> Iterator[None]:
    """End the process if the body takes longer than ``seconds``, with its stack in ``path``:
    calls that cannot be interrupted end too."""
    if seconds is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        faulthandler.dump_traceback_later(seconds, exit=True, file=file)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
    path.unlink(missing_ok=True)
