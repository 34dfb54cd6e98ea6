"""One trial: its record, and its run in an actor of Ray Tune, whose last report is that record.

The driver writes records to ``trial.json`` as output; the study is the truth. Every error becomes a
failed trial. Only the death of the process is left to Tune, which restarts the trial from its own
checkpoints.
"""

import faulthandler
import fcntl
import math
import os
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from road_ray.distributed.connection import driver_environment
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.errors import DivergedError, RoadError
from road_ray.system.files import write_json_atomic

DIVERGED = "diverged"  # how the reason of a trial begins whose loss was not finite
TRIALS_LOCK = "trials.lock"  # shared by every process that runs trials, as long as it lives
RECORD = "record"  # key of a trial's record in its last result
HUNG = "hung.txt"  # the stack of a trial at its time limit
SPENT = "trial_seconds.txt"  # of a trial's seed
_LONGEST_REASON = 600
_CLEANUP_SECONDS = "60"  # of a stopped trial, before its actor is given up


@dataclass(frozen=True)
class Record:
    """One trial: its values, its state, its results."""

    number: int
    params: Mapping[str, Any]  # as Optuna stores them
    state: str = "running"  # or complete, pruned, failed
    values: tuple[float, ...] = ()  # one per metric, means over seeds
    deviation: tuple[float | None, ...] = ()
    figures: Mapping[str, float | None] = field(default_factory=dict)  # all metrics, over seeds
    reason: str = ""  # why it failed or was stopped
    seconds: float = 0.0
    retry_of: int | None = None  # the failed trial whose values it tries again


_RECORD = TypeAdapter(Record)


OnReport = Callable[[int, int, float], None]
"""``on_report(step, total_steps, value)``: an intermediate value of the first metric and seed; may
end the run by ``SystemExit``."""
Run = Callable[[Path, Record, OnReport], Record]
"""``run(directory, record, on_report)`` returns the record with the results of its run."""


def trial_directory(directory: Path, number: int) -> Path:
    """Return the directory of a trial."""
    return directory / "trials" / f"{number:04d}"


def path_of(directory: Path, number: int) -> Path:
    """Return the path of a trial's record."""
    return trial_directory(directory, number) / "trial.json"


def spent(trial: Path, seed: str = "*") -> float:
    """Return the seconds of a trial's directory, of all starts until the last row of each; of one
    seed or of all.
    """
    texts = [path.read_text(encoding="ascii") for path in trial.glob(f"seed-{seed}/{SPENT}")]
    # A second number is of a version before, which counted the time of teachers too.
    return sum([*map(float, text.split()), 0.0][0] for text in texts)


def write(directory: Path, record: Record) -> None:
    """Write the record atomically."""
    write_json_atomic(path_of(directory, record.number), asdict(record))


def read(directory: Path, number: int) -> Record | None:
    """Return the record of a trial, or None if there is none that can be read."""
    try:
        return _RECORD.validate_json(path_of(directory, number).read_bytes())
    except (OSError, ValueError):
        return None


def trial_numbers(directory: Path) -> list[int]:
    """Return the numbers of the trials that have a directory."""
    paths = (directory / "trials").glob("[0-9]*")
    return sorted(int(path.name) for path in paths if path.name.isdecimal())


def hold_trial_lock(directory: Path) -> None:
    """Share the trial lock of a sweep until this process ends."""
    # A plain descriptor stays open; a file object would be closed when it is collected.
    lock = os.open(directory / TRIALS_LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_SH)


def perform(
    config: Mapping[str, Any],
    run: Run,
    search: SearchConfig,
    directory: Path,
    environment: tuple[str, Mapping[str, str]],
) -> None:
    """Run trial ``config["number"]`` of the sweep in ``directory`` with ``config["params"]``: the
    trainable of Tune.
    """
    import torch
    from ray import tune

    def on_report(step: int, total: int, value: float) -> None:
        if math.isfinite(value):
            tune.report({"step": step, "total": total, search.metric[0]: value})

    with driver_environment(environment):
        hold_trial_lock(directory)
        # Tune reads it in this process, and does not pass on the driver's.
        os.environ.setdefault("TUNE_FUNCTION_THREAD_TIMEOUT_S", _CLEANUP_SECONDS)
        torch.set_num_threads(max(1, int(search.cpus_per_trial)))
        record = Record(config["number"], config["params"])
        place = trial_directory(directory, record.number)
        record = _run_trial(lambda: run(place, record, on_report), record, place, search)
        record = replace(record, seconds=spent(place))  # another machine may see the files later
        tune.report({RECORD: record} | dict(zip(search.metric[:1], record.values, strict=False)))


def _run_trial(
    run: Callable[[], Record], record: Record, directory: Path, search: SearchConfig
) -> Record:
    """Return the record after the run. Raises nothing but the ``SystemExit`` of a stopped trial;
    at its time limit, which calls that cannot be interrupted have too, the process ends.
    """
    hung = directory / HUNG
    if hung.is_file() and hung.stat().st_size:
        reason = f"did not end within trial_timeout_seconds; its stack: {hung}"
        return replace(record, state="failed", reason=reason)
    try:
        if search.trial_timeout_seconds:
            directory.mkdir(parents=True, exist_ok=True)
            stack = hung.open("w", encoding="utf-8")
            faulthandler.dump_traceback_later(search.trial_timeout_seconds, exit=True, file=stack)
        done = run()
    except Exception as error:
        with suppress(OSError):  # on a full disk the record tells the reason all the same
            directory.mkdir(parents=True, exist_ok=True)
            lines = traceback.format_exception(error)
            (directory / "error.txt").write_text("".join(lines), encoding="utf-8")
        reason = str(error) if isinstance(error, RoadError) else f"{type(error).__name__}: {error}"
        if isinstance(error, DivergedError):
            reason = f"{DIVERGED}: {reason}"
        return replace(record, state="failed", reason=reason[:_LONGEST_REASON])
    finally:
        faulthandler.cancel_dump_traceback_later()
        with suppress(OSError):  # it has no stack
            hung.unlink()
    if bad := [value for value in done.values if not math.isfinite(value)]:
        reason = f"{DIVERGED}: its metric is {bad[0]}"
        return replace(done, state="failed", reason=reason, values=())
    return replace(done, state="complete")
