"""A training of two workers under faults at random, about one a minute, always seeded.

``python -m tests.chaos soak MINUTES`` tells at the end what happened, how much of the time went
into steps that count (goodput), and whether anything was left behind.
"""

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from tests.chaos.runs import events_of, paced, quiet, rows_of, trained, weights
from tests.cluster import processes_with, until
from tests.conftest import PRETRAINING

STEP_SECONDS = 0.2  # of `paced`: the machine idles meanwhile, so a soak disturbs nobody
EVERY_SECONDS = 60.0
RESUMABLE = 6


def settings(minutes: float, run: Path) -> dict[str, object]:
    """Of a pre-training on the miniature world that lasts so long by itself."""
    steps = max(60, int(minutes * 60 / STEP_SECONDS))
    corpus = {"data.root": "miniature", "data.shards": str(run.parent / "shards")}
    paces = {"training.steps": steps, "training.save_every_steps": 25}
    return PRETRAINING | corpus | paces | {"training.log_every_steps": 1}


@dataclass
class Soaked:
    """What came of it."""

    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    goodput: float = 0.0  # share of them that a run without any fault or start would have taken
    equal: bool = False
    left: list[str] = field(default_factory=list)


class Driver:
    """The process that trains, started again by the same command whenever it has gone."""

    def __init__(self, run: Path, minutes: float, pace: str = "paced") -> None:
        self.run, self.mark = run, uuid.uuid4().hex
        self._line = [sys.executable, "-m", "tests.chaos.soak", str(run), str(minutes), pace]
        self._log = run.with_suffix(".log").open("a")
        self.start()

    def start(self) -> None:
        environment = os.environ | {"ROAD_TEST_MARK": self.mark}
        environment.pop("RAY_ADDRESS", None)
        self.process = subprocess.Popen(
            self._line, env=environment, stdout=self._log, stderr=subprocess.STDOUT
        )

    def end(self, number: int) -> int:
        """Signal it, wait for it and for whatever it had started."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=180)
        until(lambda: not self.pids(), 60, 0.2)
        return code

    def titles(self) -> dict[int, str]:
        """Command lines of its living processes, by their number."""
        return processes_with(f"ROAD_TEST_MARK={self.mark}")

    def pids(self, named: str = "") -> list[int]:
        """Its living processes, all or those with that word in their title."""
        return [pid for pid, title in self.titles().items() if named in title]


def kill_a_worker(driver: Driver, chance: random.Random) -> None:
    os.kill(chance.choice(driver.pids("RayTrainWorker")), signal.SIGKILL)


def freeze_a_worker(driver: Driver, chance: random.Random) -> None:
    os.kill(chance.choice(driver.pids("RayTrainWorker")), signal.SIGSTOP)


def kill_the_driver(driver: Driver, chance: random.Random) -> None:
    assert driver.end(signal.SIGKILL) == -signal.SIGKILL
    driver.start()


def stop_the_driver(driver: Driver, chance: random.Random) -> None:
    code = driver.end(chance.choice([signal.SIGTERM, signal.SIGINT]))
    assert code in (RESUMABLE, 0), f"a stop gave exit code {code}"
    if code:
        driver.start()


def damage_the_newest_checkpoint(driver: Driver, chance: random.Random) -> None:
    assert driver.end(signal.SIGKILL) == -signal.SIGKILL
    newest = max(driver.run.glob("checkpoints/step-*"))
    if len(list(driver.run.glob("checkpoints/step-*"))) > 1:
        path = chance.choice([path for path in newest.rglob("*") if path.stat().st_size > 1])
        os.truncate(path, path.stat().st_size // 2) if path.is_file() else shutil.rmtree(path)
    driver.start()


FAULTS: tuple[Callable[[Driver, random.Random], None], ...] = (
    kill_a_worker,
    freeze_a_worker,
    kill_the_driver,
    stop_the_driver,
    damage_the_newest_checkpoint,
)


def soak(minutes: float, place: Path, seed: int) -> Soaked:
    """One training so long, with a fault about every minute, then its twin without any."""
    chance, summary = random.Random(seed), Soaked()
    order = list(FAULTS)
    driver, began = Driver(place / "run", minutes), time.monotonic()
    deadline, next_fault = began + 60 * (4 * minutes + 5), math.inf
    reached, resumed = 30, -1
    while driver.process.poll() is None:
        assert time.monotonic() < deadline, f"not done after {deadline - began:.0f} s"
        time.sleep(0.5)
        rows, working = len(rows_of(driver.run)), len(driver.pids("RayTrainWorker")) == 2
        # A minute after the run has got over the last one: a machine that needs longer for that
        # would get no further otherwise, and faults in rows are another test.
        anew = len(events_of(driver.run, "resumed"))
        if working and rows > reached and anew > resumed and next_fault == math.inf:
            next_fault = time.monotonic() + EVERY_SECONDS * chance.uniform(0.7, 1.3)
        if working and time.monotonic() > next_fault:
            if not summary.faults.total() % len(FAULTS):
                chance.shuffle(order)
            fault = order[summary.faults.total() % len(FAULTS)]
            reached, resumed = rows, anew
            print(f"{time.monotonic() - began:6.0f} s, step {rows}: {fault.__name__}", flush=True)
            fault(driver, chance)
            summary.faults[fault.__name__] += 1
            next_fault = math.inf
    assert driver.process.returncode == 0, driver.run.with_suffix(".log").read_text()[-3000:]
    summary.seconds = time.monotonic() - began
    ideal_seconds = settings(minutes, place)["training.steps"] * STEP_SECONDS
    summary.goodput = ideal_seconds / summary.seconds
    time.sleep(5)
    summary.left = [f"process {pid}: {title:.300}" for pid, title in driver.titles().items()]
    summary.left += [str(path) for path in driver.run.rglob(".step-*")]
    summary.left += [str(path) for path in driver.run.glob(".ray*")]
    calm = Driver(place / "calm", minutes, "quiet")
    assert calm.process.wait(timeout=60 * (minutes + 5)) == 0
    ours, theirs = weights(driver.run), weights(calm.run)
    summary.equal = all(torch.equal(ours[name], theirs[name]) for name in theirs)
    return summary


def main(minutes: float) -> None:
    """For the command line."""
    place = Path(tempfile.mkdtemp(prefix="soak", dir="/tmp"))
    summary = soak(minutes, place, seed=int(time.time()) % 1000)
    shutil.rmtree(place)
    print(json.dumps({"faults": summary.faults.total(), **summary.faults}))
    print(f"weights of the calm run: {'yes' if summary.equal else 'NO'}")
    print(f"goodput {summary.goodput:.0%} of {summary.seconds:.0f} s")
    print(f"left behind: {summary.left or 'nothing'}")


def drive(run: str, minutes: str, pace: str) -> int:
    """The driver's own process: exit code 6 after a stop, as ``road`` has it."""
    from road_ray.errors import RoadError

    try:
        trained(
            settings(float(minutes), Path(run)), Path(run), {"paced": paced, "quiet": quiet}[pace]
        )
    except RoadError as error:
        print(f"error[{error.kind}]: {error}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(drive(*sys.argv[1:]))
