"""End the processes of a local Ray cluster when the process that started it has died.

``python undertaker.py NAME=VALUE`` waits until its standard input ends. Then it kills the processes
that have this variable in their environment, and all that these have started. Some of Ray's own
processes notice only after a minute that the one that started them has died. This file runs on its
own, without a package beside Python.
"""

import contextlib
import os
import signal
import sys
import time

Process = tuple[int, int]  # its id and its start, as ids are given again


def processes_of(mark: bytes, known: frozenset[Process]) -> frozenset[Process]:
    """Return the processes that run and have ``mark`` in their environment, are ``known``, or were
    started by one of these. The title that Ray writes over a command line may hide the mark.
    """
    running: dict[int, tuple[Process, int]] = {}
    found: set[Process] = set()
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            process = pid, int(fields[19])
            running[pid] = process, int(fields[1])
            with open(f"/proc/{pid}/environ", "rb") as environment:
                if process in known or mark in environment.read().split(b"\0"):
                    found.add(process)
        except OSError:  # it has ended, or is another user's
            continue
    for process, parent in sorted(running.values(), key=lambda entry: entry[0][1]):  # parents first
        if parent in running and running[parent][0] in found:
            found.add(process)
    return frozenset(found - {running[os.getpid()][0]})


def main() -> None:
    mark = sys.argv[1].encode()
    sys.stdin.read()
    if not os.path.isdir("/proc"):
        return
    known = processes_of(mark, frozenset())  # before a parent ends and its children are nobody's
    time.sleep(3)  # for what ends by itself
    for _ in range(50):  # 5 s, because a node starts a worker in the place of one that has gone
        known = processes_of(mark, known)
        for pid, _start in known:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
