"""A cluster of our own on this machine, for as long as this process lives."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import uuid
from functools import cache

import ray

from road_ray.errors import ClusterError

_MARK = "ROAD_CLUSTER"  # in the environment of every process of a cluster of ours
# Ray's processes notice the death of the one that started them, some of them after a minute only.
# This one hears of it at once, because then its standard input ends, and ends what is still there.
_UNDERTAKER = """
import os, signal, sys, time
sys.stdin.read()
time.sleep(3)
mark = sys.argv[1].encode()
for entry in os.listdir("/proc"):
    try:
        if entry.isdigit() and int(entry) != os.getpid():
            with open(f"/proc/{entry}/environ", "rb") as file:
                if mark in file.read():
                    os.kill(int(entry), signal.SIGKILL)
    except OSError:
        pass
"""


def start(num_cpus: int | None, *, dashboard: bool) -> None:
    """Start one and join it. Raises ``ClusterError`` when it is not up within Ray's 30 s."""
    os.environ[_MARK], _ = _attended()
    try:
        ray.init(
            address="local",
            num_cpus=num_cpus,
            include_dashboard=dashboard,
            log_to_driver=True,
            logging_level=logging.ERROR,
        )
    except Exception as error:
        if type(error) is not Exception:  # Ray has no class of its own for a start that failed
            raise
        raise ClusterError(
            f"Ray could not be started on this machine: {error}\n"
            f"  seen: {os.getloadavg()[0]:.0f} processes at work on {os.cpu_count()} cores\n"
            "  fix: run the same command again when there is less to do, or give the address of a "
            "cluster that is up (`ray start --head`, then --address auto)\n"
            "  kept: what was there before"
        ) from error
    finally:
        del os.environ[_MARK]


@cache
def _attended() -> tuple[str, subprocess.Popen[bytes]]:
    """The mark of this process's clusters, and who waits from here on to end them."""
    mark = uuid.uuid4().hex
    undertaker = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _UNDERTAKER, mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is not for it
    )
    return mark, undertaker
