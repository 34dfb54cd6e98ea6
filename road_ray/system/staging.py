"""Staging beside a final place, and renaming into it.

What killed processes left there is told from what others still write, on file systems that several
machines share too.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from road_ray.system.operating_system import process_exists, sync

_log = logging.getLogger(__name__)

_MARKED = re.compile(r"\.(?:tmp|old|damaged)-(?:(\w+)-)?(\d+)")
_FOREIGN_SECONDS = 24 * 3600.0  # longer than a checkpoint or a shard is written


def mark() -> str:
    """Return the host and the id of this process, the end of the names of what it stages."""
    return f"{_host()}-{os.getpid()}"


def staged_beside(path: Path, kind: str = "tmp") -> Path:
    """Return the hidden path beside ``path`` where this process stages it."""
    return path.with_name(f".{path.name}.{kind}-{mark()}")


@contextmanager
def staged_directory(final: Path) -> Iterator[Path]:
    """Yield a new directory that, flushed to the disk, becomes ``final`` at the end of the block,
    in the place of what is there; if the block fails, it is removed. What killed processes staged
    for the same place is removed too.
    """
    for left in final.parent.glob(f".{final.name}.*"):
        if is_abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
    staged = staged_beside(final)
    try:
        staged.mkdir()
        yield staged
        for path in [*staged.rglob("*"), staged]:
            sync(path)
        if final.exists():
            discard(final)
        os.rename(staged, final)
        sync(final.parent)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def discard(directory: Path) -> None:
    """Rename a directory, then delete it; a kill in between leaves only a leftover."""
    aside = staged_beside(directory, "old")
    try:
        os.rename(directory, aside)
    except OSError as error:
        _log.warning("%s cannot be removed: %s", directory, error)
        return
    shutil.rmtree(aside, ignore_errors=True)


def is_abandoned(path: Path) -> bool:
    """Return True for a staged file or directory whose process has ended. Processes of this host
    are looked up; of another host, it is one that has not changed for a day.
    """
    marked = _MARKED.search(path.name)
    if marked is None:
        return False
    if marked[1] == _host():
        # A name with our own id is of an earlier process that had the same id.
        return int(marked[2]) == os.getpid() or not process_exists(int(marked[2]))
    try:
        return time.time() - path.stat().st_mtime > _FOREIGN_SECONDS
    except FileNotFoundError:
        return False


def _host() -> str:
    return re.sub(r"\W", "_", socket.gethostname())
