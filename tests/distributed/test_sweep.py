"""A sweep whose driver is killed three times loses no finished trial and runs none again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import pytest

from road_ray.distributed import sweep_record
from road_ray.distributed.sweep_study import JOURNAL
from tests.distributed.sweep_driver import HANGS, NAN, RAISES

ROOT = Path(__file__).parents[2]


class Sweep:
    """Starts, watches and kills the driver of one sweep."""

    def __init__(self, directory: Path, place: str) -> None:
        self.directory, self.place = directory, place

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.distributed.sweep_driver"]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [*command, str(self.directory), self.place], cwd=ROOT, env=environment
        )

    def ended(self) -> set[int]:
        numbers = sweep_record.numbers(self.directory)
        records = [sweep_record.read(self.directory, number) for number in numbers]
        return {record.number for record in records if record is not None and record.ended}

    def log(self) -> dict[int, list[int]]:
        """The steps that each trial made, in order."""
        steps = defaultdict(list)
        path = self.directory / "log"
        for line in path.read_text().splitlines() if path.is_file() else ():
            number, step, _ = line.split()
            steps[int(number)].append(int(step))
        return steps

    def halfway(self) -> bool:
        """Whether some trial is in the middle of its steps."""
        done = self.ended()
        return any(number not in done and len(steps) > 1 for number, steps in self.log().items())

    def processes(self) -> set[int]:
        """Of Ray in our own directory, and of its trials."""
        pids = {int(line.split()[2]) for line in (self.directory / "log").read_text().splitlines()}
        for entry in Path("/proc").glob("[0-9]*"):
            if self.place in _read(entry / "cmdline"):
                pids.add(int(entry.name))
        return {pid for pid in pids if _alive(pid)}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # it has ended


def _alive(pid: int) -> bool:
    state = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return bool(state) and state[0] != "Z"


def until(what, driver: subprocess.Popen[bytes] | None, seconds: float = 240.0) -> float:
    began = time.monotonic()
    while not what():
        assert driver is None or driver.poll() is None, "the driver ended by itself"
        assert time.monotonic() - began < seconds, "waited in vain"
        time.sleep(0.1)
    return time.monotonic() - began


@pytest.fixture
def sweep(tmp_path):
    place = tempfile.mkdtemp(prefix="rr", dir="/tmp")
    yield Sweep(tmp_path / "sweep", place)
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.ray
@pytest.mark.chaos
@pytest.mark.timeout(1200)
def test_a_driver_killed_three_times_loses_and_repeats_nothing(sweep):
    kills, kept = 0, {}
    for finished in (1, 4, 8):
        driver = sweep.start()
        until(lambda least=finished: len(sweep.ended()) >= least and sweep.halfway(), driver)
        driver.send_signal(signal.SIGKILL)
        kills += driver.wait() == -signal.SIGKILL
        seconds = until(lambda: not sweep.processes(), None, 60.0)
        print(f"no process left {seconds:.1f} s after the kill")
        done = sweep.ended()
        assert kept.keys() <= done
        kept |= {number: sweep.log()[number] for number in done}
    assert kills == 3
    journal = sweep.directory / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-7])  # torn, as by a full disk
    lost = min(kept)
    before = sweep_record.read(sweep.directory, lost)
    (sweep_record.place_of(sweep.directory, lost) / "trial.json").write_text('{"number')
    assert sweep.start().wait(timeout=400) == 0

    records = [sweep_record.read(sweep.directory, n) for n in range(12)]
    assert sweep_record.numbers(sweep.directory) == list(range(12))
    assert sweep_record.read(sweep.directory, lost).values == before.values
    log = sweep.log()
    assert {number: log[number] for number in kept} == kept, "a finished trial ran again"
    for number, steps in log.items():
        assert steps == list(range(1, len(steps) + 1)), f"trial {number} did not go on: {steps}"
    states = {record.number: record.state for record in records}
    assert "running" not in states.values()
    failed = {record.number: record.reason for record in records if record.state == "failed"}
    assert set(failed) == {RAISES, NAN, HANGS}
    assert failed[RAISES] == "ValueError: trial 3 always fails"
    assert "is nan" in failed[NAN]
    assert "did not end within" in failed[HANGS]
    _check_study(sweep, states)


def _check_study(sweep: Sweep, states: dict[int, str]) -> None:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    storage = JournalStorage(JournalFileBackend(str(sweep.directory / JOURNAL)))
    study = optuna.load_study(study_name="s", storage=storage)
    names = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    assert {trial.number: names[trial.state.name] for trial in study.trials} == states
