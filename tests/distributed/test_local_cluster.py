"""A cluster that does not come up is told as such."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from road_ray.distributed import local_cluster, orphan_cleanup
from road_ray.errors import ClusterError
from tests.cluster import processes_with


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (Exception("The current node timed out during startup."), ClusterError),
        (ValueError("of another kind"), ValueError),
    ],
)
def test_a_start_that_takes_too_long_is_told_with_what_to_do(monkeypatch, raised, message):
    def fail(**options):
        raise raised

    monkeypatch.setattr(local_cluster.ray, "init", fail)
    with pytest.raises(message) as error:
        local_cluster.start(1, dashboard=False)
    if message is ClusterError:
        assert "timed out during startup" in str(error.value)
        assert "processes at work" in str(error.value)


def test_a_slow_start_is_tried_again(monkeypatch, caplog):
    outcomes = iter([Exception("timed out"), Exception("timed out"), None])

    def start(**options):
        if (error := next(outcomes)) is not None:
            raise error

    monkeypatch.setattr(local_cluster.ray, "init", start)
    local_cluster.start(1, dashboard=False)
    assert next(outcomes, "none left") == "none left"
    assert caplog.text.count("trying again") == 2


def test_the_mark_of_all_processes_stays_readable(monkeypatch):
    """Ray's agents write a title over their environment unless told not to."""
    seen = {}
    monkeypatch.setattr(local_cluster.ray, "init", lambda **options: seen.update(os.environ))
    before = dict(os.environ)
    local_cluster.start(1, dashboard=False)
    assert len(seen[local_cluster._MARK]) == 32
    assert seen["SPT_NOENV"] == "1"
    assert dict(os.environ) == before


STARTS_TWO = """
import os, subprocess, sys, time
from road_ray.distributed.local_cluster import _MARK, _cleanup_process
mark, _ = _cleanup_process()
for environment in (os.environ | {_MARK: mark}, os.environ):
    child = subprocess.Popen(["sleep", "60"], env=environment, stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
time.sleep(60)
"""


def test_what_a_killed_driver_had_started_ends_and_nothing_else():
    driver = subprocess.Popen([sys.executable, "-c", STARTS_TWO], stdout=subprocess.PIPE, text=True)
    ours, rest = (int(driver.stdout.readline()) for _ in range(2))
    driver.kill()
    driver.communicate()
    deadline = time.monotonic() + 20
    while is_alive(ours) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_alive(ours)
    assert is_alive(rest)
    os.kill(rest, signal.SIGKILL)


# The process that goes on starting others is the last of many, so that it does so while they are
# ended.
STARTS_MORE_AND_MORE = """
import os, time
for _ in range(300):
    if not os.fork():
        time.sleep(60)
        os._exit(0)
if os.fork():
    time.sleep(60)
    os._exit(0)
time.sleep(2)
while os.fork():
    time.sleep(0.001)
time.sleep(60)
"""
DRIVER = """
import os, subprocess, sys, time
from road_ray.distributed.local_cluster import _MARK, _cleanup_process
mark, _ = _cleanup_process()
subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=os.environ | {_MARK: mark})
print(mark, flush=True)
time.sleep(60)
"""


def test_what_starts_while_the_rest_is_ended_ends_too():
    """As the worker that Ray's node starts in the place of one that has gone."""
    line = [sys.executable, "-c", DRIVER, STARTS_MORE_AND_MORE]
    driver = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    mark = f"{local_cluster._MARK}={driver.stdout.readline().strip()}"
    driver.kill()
    driver.wait()
    deadline = time.monotonic() + 20
    while processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_with(mark) == {}


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_it_ends_soon_where_nothing_is_left():
    line = [sys.executable, "-I", "-S", orphan_cleanup.__file__, "ROAD_CLUSTER=none has this"]
    began = time.monotonic()
    subprocess.run(line, stdin=subprocess.DEVNULL, check=True, timeout=20)
    assert time.monotonic() - began < orphan_cleanup.GRACE_SECONDS
