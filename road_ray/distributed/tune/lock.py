"""One driver a sweep, and none begins while trials of a killed one are still alive."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from road_ray.errors import ResourceError

_log = logging.getLogger(__name__)
_TRIALS = "trials.lock"  # every process that runs trials shares it as long as it lives
_held: dict[Path, IO[str]] = {}


@contextmanager
def sweep_lock(directory: Path) -> Iterator[None]:
    """The sweep's directory, for this process alone. Raises ``ResourceError`` if another has it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "sweep.lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise ResourceError(
            f"run_dir = {directory}: cannot be written: {error.strerror}: {error.filename}\n"
            "  fix: make it writable or choose another directory; nothing was started"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise ResourceError(
                f"the sweep in {directory} is run by {lock.read().strip() or 'another process'}\n"
                "  fix: wait for it or stop it; to run another one beside it, give name=ANOTHER\n"
                "  kept: that sweep, as it is"
            ) from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        lock.flush()
        yield


def hold_trial_lock(directory: Path) -> None:
    """Say, as long as this process lives, that it runs trials of the sweep; it ends with the one
    that started it.
    """
    if directory not in _held:
        _held[directory] = (directory / _TRIALS).open("a", encoding="utf-8")
        fcntl.flock(_held[directory], fcntl.LOCK_SH)
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    """Ends this process when its parent is gone: a killed driver takes Ray's raylet with it, and
    trials must not train on, whatever Ray makes of that.
    """
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def wait_for_trials(directory: Path, timeout_seconds: float = 120.0) -> None:
    """Returns when no process of an earlier start runs trials. Ray ends those of a killed driver
    after about ten seconds; until then they write to their run directories.

    Raises: ResourceError when they are still there after ``timeout_seconds``.
    """
    deadline = time.monotonic() + timeout_seconds
    told = False
    with (directory / _TRIALS).open("a", encoding="utf-8") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ResourceError(
                        f"{directory}: processes of an earlier start still run its trials after "
                        f"{timeout_seconds:g} s\n  fix: end them; nothing was started"
                    ) from None
                if not told:
                    _log.info("waiting for trials of an earlier start to end")
                    told = True
                time.sleep(0.2)
            else:
                return
