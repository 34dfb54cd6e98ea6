"""Locks on open files. The kernel frees one when its holder ends, also by SIGKILL.

They call ``flock`` themselves, because the ``filelock`` package offers no shared lock on a file of
ours and no holder. Windows has exclusive locks only: there a shared lock does nothing, and what it
guards against, such as deleting a store in use, is refused by Windows for open files.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import IO, TextIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_BYTE = 1 << 30  # Windows locks bytes, also against reading: one behind the name of the holder


def lock_exclusively(file: TextIO) -> str | None:
    """Lock ``file``, opened with mode ``a+``, until it is closed, and write the holder into it.
    Return None, or the name of the holder if another process has the lock.

    Raises ``OSError`` where the file system has no locks.
    """
    try:
        _lock(file)
    except BlockingIOError:
        file.seek(0)
        return file.read().strip() or "another process"
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()
    return None


def lock_shared(file: IO[str] | int) -> None:
    """Share the lock of ``file``, or of a descriptor, until it is closed. Waits while another
    process has it alone.
    """
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_SH)


def _lock(file: TextIO) -> None:
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif sys.platform == "win32":
        import msvcrt

        place = file.tell()
        file.seek(_BYTE)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(str(error)) from error
        finally:
            file.seek(place)
