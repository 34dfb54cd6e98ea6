"""End the processes of a local Ray cluster when the process that started it has died.

``python orphan_cleanup.py NAME=VALUE`` waits until its standard input ends. Then it kills the
processes that have this variable in their environment. Some of Ray's own processes notice only
after a minute that the one that started them has died. This file runs on its own, without the
package.
"""

import contextlib
import os
import signal
import sys
import time


def main() -> None:
    mark = sys.argv[1].encode()
    sys.stdin.read()
    time.sleep(3)  # for processes that end by themselves
    # Repeat for 5 s, because Ray's node replaces a worker that has ended.
    for _ in range(50 if os.path.isdir("/proc") else 0):
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            # A process that has ended, or of another user, raises ``OSError``.
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as environment:
                if pid != os.getpid() and mark in environment.read():
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
