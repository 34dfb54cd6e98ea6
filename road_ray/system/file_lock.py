"""Locks on open files. The kernel frees one when its holder ends, also by SIGKILL.

They call ``flock`` directly, because the ``filelock`` package has neither shared locks on a given
file nor the name of the holder. Windows has exclusive locks only. There a shared lock does nothing,
and Windows itself refuses to delete open files, such as those of a store in use.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from typing import IO, Any, TextIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_BYTE = 1 << 30  # Windows also blocks reading of locked bytes: lock one after the holder's name


def lock_exclusively(file: TextIO) -> str | None:
    """Lock ``file``, opened with mode ``a+``, until it is closed, and write the holder into it.
    Return None, or the name of the holder if another process has the lock.

    Raises ``OSError`` where the file system has no locks.
    """
    if not try_lock(file):
        file.seek(0)
        return file.read().strip() or "another process"
    with suppress(OSError):  # on a full disk the lock holds all the same, without a name
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()}\n".encode())
    return None


def lock_shared(file: IO[str] | int) -> None:
    """Share the lock of ``file``, or of a descriptor, until it is closed. Wait while another
    process holds it exclusively.
    """
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_SH)


def try_lock(file: IO[Any]) -> bool:
    """Lock ``file`` exclusively until it is closed, and leave its content as it is. Return False if
    another process has the lock.
    """
    try:
        _lock(file)
    except BlockingIOError:
        return False
    return True


def _lock(file: IO[Any]) -> None:
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
