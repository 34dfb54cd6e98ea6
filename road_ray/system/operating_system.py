"""Services of the operating system: cores, processes, memory, sync of a directory, locks.

The kernel frees a lock on an open file when its holder ends, also by SIGKILL. Locks call ``flock``
directly, because the ``filelock`` package has neither shared locks on a given file nor the name of
the holder.
"""

import ctypes
import errno
import fcntl
import os
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import TextIO

# From glibc's malloc.h: the size from which free memory at the end of the heap returns to the
# system, and the size from which a block is mapped, and unmapped, on its own.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_TRIM_BYTES, _MMAP_BYTES = 2**31 - 1, 2**30
_DISK_ERRORS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
    *(errno.EACCES, errno.EPERM, errno.EROFS),
}


def usable_cores() -> int:
    """Return the number of cores that this process may use; all cores if that is unknown."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def process_exists(pid: int) -> bool:
    """Return True if a process of this machine has that id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def sync(path: Path) -> None:
    """Flush a file, or the names in a directory, to the disk: they survive a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_disk_error(error: BaseException) -> bool:
    """Return True for an error of disk or permission, also if it is only in the message, as in
    errors of Rust.
    """
    inside = re.search(r"os error (\d+)", str(error))
    number = error.errno if isinstance(error, OSError) else int(inside[1]) if inside else None
    return number in _DISK_ERRORS


def keep_freed_memory() -> None:
    """Keep freed memory in the process, so that a step reuses the memory of the last one.

    Returning it to the system page by page costs a step of twelve layers on a CPU 5 to 8% in fp32
    and 14 to 17% in bf16. No effect without glibc. What earlier runs of this process left returns
    to the system first: a process that ran a dozen trainings held 10 GB, of which 1.7 were in use.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.malloc_trim(0)
        libc.mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, _TRIM_BYTES)


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
    with suppress(OSError):  # on a full disk the lock holds all the same, without a name
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()}\n".encode())
    return None
