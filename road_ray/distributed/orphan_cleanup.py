"""End the processes of a local Ray cluster when the process that started it has died.

``python orphan_cleanup.py NAME=VALUE`` waits until its standard input ends. The processes that have
this variable in their environment then have 3 s to end by themselves; those that are left are
killed. Some of Ray's own processes notice only after a minute that the one that started them has
died. This file runs on its own, without the package.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator

GRACE_SECONDS = 3.0
END_SECONDS = 8.0


def main() -> None:
    mark = sys.argv[1].encode()
    sys.stdin.read()
    began = last_seen = time.monotonic()
    # Ray's node replaces a worker that has ended, so none must have been seen for a second.
    while (now := time.monotonic()) < min(last_seen + 1, began + END_SECONDS):
        for pid in marked_processes(mark):
            last_seen = now
            if now - began >= GRACE_SECONDS:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def marked_processes(mark: bytes) -> Iterator[int]:
    """Yield the other living processes whose environment contains the mark."""
    for pid in map(int, filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ())):
        # A process that has ended, or of another user, raises ``OSError``.
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as environment:
            if pid != os.getpid() and mark in environment.read():
                yield pid


if __name__ == "__main__":
    main()
