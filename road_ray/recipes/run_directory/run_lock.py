"""Lock of a run directory: one process at a time trains in it."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from road_ray.errors import ResourceError
from road_ray.system.file_lock import lock_exclusively

LOCK = "run.lock"


def lock_run_directory(directory: Path) -> TextIO:
    """Create a run directory and return its lock, which this process holds until it is closed.

    Raises ``ResourceError`` when another process holds it, or the directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / LOCK).open("a+", encoding="utf-8")
        holder = lock_exclusively(lock)
    except OSError as error:
        raise write_error(directory, error) from error
    if holder:
        lock.close()
        raise ResourceError(
            f"run_dir = {directory} is in use by {holder}\n"
            "  fix: wait for it, stop it, or choose another directory; nothing was changed"
        )
    return lock


def write_error(directory: Path, error: Exception) -> ResourceError:
    """Return the error of a run directory that cannot be written."""
    return ResourceError(
        f"run_dir = {directory}: cannot be written ({error})\n"
        "  fix: free space there, make it writable, or choose another directory\n"
        "  kept: what was there before"
    )
