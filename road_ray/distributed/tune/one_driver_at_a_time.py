"""Locks of a sweep: one driver at a time, and none while trials of a killed driver are alive."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from road_ray.errors import ResourceError
from road_ray.system.operating_system import lock_exclusively, lock_shared

_log = logging.getLogger(__name__)
_TRIALS = "trials.lock"  # shared by every process that runs trials, as long as it lives


@contextmanager
def sweep_lock(directory: Path) -> Iterator[None]:
    """Lock the directory of a sweep for this process.

    Raises ``ResourceError`` if another process has it or it cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "sweep.lock").open("a+", encoding="utf-8")
        holder = lock_exclusively(lock)
    except OSError as error:
        raise ResourceError(
            f"run_dir = {directory}: cannot be written: {error.strerror}: "
            f"{error.filename or 'sweep.lock'}\n"
            "  fix: make it writable or choose another directory; nothing was started"
        ) from error
    with lock:
        if holder:
            raise ResourceError(
                f"the sweep in {directory} is run by {holder}\n"
                "  fix: wait for it or stop it; to run another one beside it, give name=ANOTHER\n"
                "  kept: that sweep, as it is"
            )
        yield


@cache  # one descriptor for all trials of a process
def hold_trial_lock(directory: Path) -> None:
    """Share the trial lock of a sweep until this process ends."""
    # A plain descriptor stays open; a file object would be closed when it is collected.
    lock_shared(os.open(directory / _TRIALS, os.O_RDWR | os.O_CREAT))


def wait_for_trials(directory: Path, timeout_seconds: float = 120.0) -> None:
    """Return when no process of an earlier driver runs trials. Ray ends those of a killed driver
    after about ten seconds; until then they write to their run directories.

    Raises ``ResourceError`` if they are still alive after ``timeout_seconds``.
    """
    deadline = time.monotonic() + timeout_seconds
    with (directory / _TRIALS).open("a+", encoding="utf-8") as lock:
        if lock_exclusively(lock) is None:
            return
        _log.info("waiting for trials of an earlier start to end")
        while lock_exclusively(lock):
            if time.monotonic() > deadline:
                raise ResourceError(
                    f"{directory}: processes of an earlier start still run its trials after "
                    f"{timeout_seconds:g} s\n  fix: end them; nothing was started"
                )
            time.sleep(0.2)
