"""Exclusive lock on an open file. The kernel frees it when its holder ends, also by SIGKILL.

It calls ``flock`` itself, because the ``filelock`` package offers no shared lock and no holder.
"""

from __future__ import annotations

import fcntl
import os
import socket
from typing import TextIO


def lock_exclusively(file: TextIO) -> str | None:
    """Lock ``file``, opened with mode ``a+``, until it is closed, and write the holder into it.
    Return None, or the name of the holder if another process has the lock.

    Raises ``OSError`` where the file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        return file.read().strip() or "another process"
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()
    return None
