"""A sweep with a killed driver loses and repeats no finished trial, and leaves no process
behind.
"""

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import psutil
import pytest

from road_ray.distributed.tune import one_trial
from road_ray.distributed.tune.study import JOURNAL
from tests.cluster import alive, own_cluster, short_directory
from tests.distributed.sweep_driver import HANGS, NAN, RAISES, STEPS

pytestmark = [pytest.mark.ray, pytest.mark.chaos, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[3]
# After these nothing of a killed driver is left, on a machine that has the time: a worker that was
# starting waits this long for a cluster that has ended with its driver.
GONE_SECONDS = 60.0


class Sweep:
    """Starts, watches and kills the drivers of one sweep."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.drivers: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.distributed.sweep_driver", str(self.directory)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        self.drivers.append(subprocess.Popen([*command, *arguments], cwd=ROOT, env=environment))
        return self.drivers[-1]

    def ended(self) -> set[int]:
        numbers = one_trial.trial_numbers(self.directory)
        records = [one_trial.read(self.directory, number) for number in numbers]
        return {record.number for record in records if record and record.state != "running"}

    def lines(self) -> list[list[int]]:
        """Trial, step and process of every step made."""
        path = self.directory / "log"
        text = path.read_text() if path.is_file() else ""
        return [[int(word) for word in line.split()] for line in text.splitlines()]

    def log(self) -> dict[int, list[int]]:
        """The steps that each trial made, in order."""
        steps = defaultdict(list)
        for number, step, _ in self.lines():
            steps[number].append(step)
        return steps

    def halfway(self) -> bool:
        """Whether some trial is in the middle of its steps."""
        done = self.ended()
        return any(n not in done and 1 < len(steps) < STEPS for n, steps in self.log().items())

    def processes(self, place: str) -> set[int]:
        """Of trials, and of Ray if its directory is ``place``."""
        pids = {pid for _, _, pid in self.lines()}
        for process in psutil.process_iter(["cmdline"]):
            if place in " ".join(process.info["cmdline"] or []):
                pids.add(process.pid)
        return {pid for pid in pids if alive(pid)}


def until(what, driver: subprocess.Popen[bytes] | None, seconds: float = 400.0) -> float:
    began = time.monotonic()
    while not what():
        assert driver is None or driver.poll() is None, "the driver ended by itself"
        assert time.monotonic() - began < seconds, "waited in vain"
        time.sleep(0.1)
    return time.monotonic() - began


def kill(driver: subprocess.Popen[bytes], gone) -> None:
    """SIGKILL; then ``gone`` within the time, more of it where others use the machine."""
    driver.send_signal(signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL
    crowd = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    seconds = until(gone, None, GONE_SECONDS * crowd)
    print(f"nothing left {seconds:.1f} s after the kill, {crowd:.1f} processes a core")


@pytest.fixture
def sweep(tmp_path):
    made = Sweep(tmp_path / "sweep")
    yield made
    for driver in made.drivers:
        driver.kill()
        driver.wait()


@pytest.fixture
def place():
    with short_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def address():
    """A cluster that others use too: it stays when a driver dies."""
    # Ray Train's cleaner asks the dashboard.
    with own_cluster(4, include_dashboard=True, log_to_driver=False) as ray:
        yield ray.get_runtime_context().gcs_address


def leaked() -> list[str]:
    """Placement groups of the cluster that are not removed."""
    import ray

    groups = ray.util.placement_group_table().values()
    return [group["placement_group_id"] for group in groups if group["state"] != "REMOVED"]


def held(sweep: Sweep) -> bool:
    """Whether the cluster still holds something for a sweep."""
    return bool(sweep.processes("no place") or leaked())


def test_a_driver_killed_three_times_loses_and_repeats_nothing(
    sweep, place, address, record_property
):
    outcomes = {}
    for finished, where in ((1, address), (4, place), (8, address)):
        driver = sweep.start(where)
        until(lambda least=finished: len(sweep.ended()) >= least and sweep.halfway(), driver)
        if where == address:
            assert leaked(), "Tune runs every trial in a placement group"
            kill(driver, lambda: not held(sweep))
        else:
            kill(driver, lambda: not sweep.processes(place))
        done = sweep.ended()
        assert outcomes.keys() <= done
        outcomes |= {number: sweep.log()[number] for number in done}
    with (sweep.directory / JOURNAL).open("ab") as journal:
        journal.write(b'{"op_code":4,"worker')  # torn, as by a full disk
    lost = min(outcomes)
    before = one_trial.read(sweep.directory, lost)
    (one_trial.trial_directory(sweep.directory, lost) / "trial.json").write_text('{"number')
    assert sweep.start(address).wait(timeout=400) == 0
    assert until(lambda: not held(sweep), None, 60.0) < 60

    assert one_trial.trial_numbers(sweep.directory) == list(range(12))
    records = [one_trial.read(sweep.directory, n) for n in range(12)]
    assert records[lost].values == before.values
    log = sweep.log()
    assert {number: log[number] for number in outcomes} == outcomes, "a finished trial ran again"
    for number, steps in log.items():
        assert steps == list(range(1, len(steps) + 1)), f"trial {number} did not go on: {steps}"
    assert "running" not in {record.state for record in records}
    failed = {record.number: record.reason for record in records if record.state == "failed"}
    assert set(failed) == {RAISES, NAN, HANGS}, failed
    assert failed[RAISES] == "ValueError: trial 3 always fails"
    assert "is nan" in failed[NAN]
    assert "did not end within" in failed[HANGS]
    message = "0 of 12 after three kills, none run again"
    record_property("driver of a sweep killed: finished trials lost", message)


def test_trials_with_workers_go_on_after_a_kill_and_are_stopped_by_what_their_workers_tell(
    sweep, address
):
    driver = sweep.start(address, "nested")
    until(sweep.halfway, driver)
    assert leaked()
    kill(driver, lambda: not held(sweep))
    assert 0 < len(sweep.log()[0]) < STEPS
    assert sweep.start(address, "nested").wait(timeout=400) == 0
    until(lambda: not held(sweep), None, 60.0)
    assert sweep.log()[0] == list(range(1, STEPS + 1))
    better, worse = (one_trial.read(sweep.directory, number) for number in (0, 1))
    assert (better.state, better.values) == ("complete", (1.0,))
    assert (worse.state, worse.values) == ("pruned", (0.0,))
    assert 0 < len(sweep.log()[1]) < STEPS
