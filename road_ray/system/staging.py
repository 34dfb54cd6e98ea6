"""Names of what is staged beside its final place; what killed processes left there is told from
what others still write, on file systems that several machines share too.
"""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import Path

from road_ray.system.operating_system import process_exists

_MARKED = re.compile(r"\.(?:tmp|old|damaged)-(?:(\w+)-)?(\d+)")
_FOREIGN_SECONDS = 24 * 3600.0  # longer than a checkpoint or a shard is written


def mark() -> str:
    """Return the host and the id of this process, the end of the names of what it stages."""
    return f"{_host()}-{os.getpid()}"


def staged_beside(path: Path, kind: str = "tmp") -> Path:
    """Return the hidden path beside ``path`` where this process stages it."""
    return path.with_name(f".{path.name}.{kind}-{mark()}")


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
