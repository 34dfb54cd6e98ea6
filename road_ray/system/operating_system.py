"""Differences between operating systems: cores, processes, and the sync of a directory."""

from __future__ import annotations

import os
from pathlib import Path


def usable_cores() -> int:
    """Return the number of cores that this process may use; all of them where that is unknown."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def process_exists(pid: int) -> bool:
    """Return True if a process of this machine has that id, also where that cannot be asked."""
    if os.name == "nt":  # there, os.kill with 0 sends Ctrl-C
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def sync(path: Path) -> None:
    """Write a file, or the names in a directory, to the disk itself, so that a power failure keeps
    them. Windows cannot do so with a directory.
    """
    windows = os.name == "nt"
    if windows and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
