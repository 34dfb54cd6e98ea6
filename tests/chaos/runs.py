"""Small trainings on several workers for the chaos tests: paced, hurt, and watched from outside."""

import os
import signal
import threading
import time
from pathlib import Path

from safetensors.torch import load_file

from road_ray.recipes.pretraining import pretrain as recipe
from road_ray.recipes.run_directory.run import launch, open_run_directory
from road_ray.training import loop
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.verbs import configure
from tests.cluster import until

NOISE = {"rtol": 1e-3, "atol": 2e-5}
SIZES = "sizes"


def trained(settings, place, main, workers=2, min_workers=None) -> Path:
    """A pre-training on workers, each of which does ``main`` around the recipe's own."""
    how = {"run_dir": str(place), "workers": workers, "min_workers": min_workers}
    config = configure("pretrain", overrides=settings | how)
    with open_run_directory(config):
        recipe.prepare_corpus(config.data)
        launch(main, config)
    return place


quiet = recipe.main


def paced(config, worker, context):
    """A fifth of a second a step; notes how many workers there are whenever a group starts."""
    if worker.is_main:
        with (config.run_dir / SIZES).open("a") as file:
            file.write(f"{worker.size}\n")
    backward = loop.backward

    def slowly(*args, **options):
        time.sleep(0.2)
        return backward(*args, **options)

    loop.backward = slowly
    try:
        return recipe.main(config, worker, context)
    finally:
        loop.backward = backward


def killed(rank, config, worker, context):
    """The worker of that rank kills itself once, after the tenth step."""
    done = config.run_dir / "killed"

    def kill() -> None:
        done.touch()
        os.kill(os.getpid(), signal.SIGKILL)

    if worker.rank == rank and not done.exists():
        _after(10, config.run_dir, kill)
    return recipe.main(config, worker, context)


def stopped(config, worker, context):
    """A stop after the ninth step, asked of one worker only."""
    if worker.rank == 1:
        _after(9, config.run_dir, context.stop.set)
    return recipe.main(config, worker, context)


def _after(step, run, act):
    """Call ``act`` in a thread when the run has made so many steps."""

    def watch() -> None:
        while len(rows_of(run)) < step:
            time.sleep(0.02)
        act()

    threading.Thread(target=watch, daemon=True).start()


def rows_of(run: Path) -> list[dict[str, float]]:
    path = run / "metrics.jsonl"
    return read_rows(path) if path.is_file() else []


def events_of(run: Path, kind: str) -> list[dict[str, object]]:
    path = run / "events.jsonl"
    events = read_rows(path) if path.is_file() else []
    return [event for event in events if event["kind"] == kind]


def sizes_of(run: Path) -> list[int]:
    """How many workers each group of the run had."""
    path = run / SIZES
    return [int(line) for line in path.read_text().splitlines()] if path.is_file() else []


def weights(run: Path):
    return load_file(run / "hf" / "model.safetensors")


class Watched:
    """The steps of a run as they come: the longest wait for a new one, and what is done again."""

    def __init__(self, run: Path) -> None:
        self.run, self.step, self.gap, self.again = run, 0, 0.0, 0
        self._at: float | None = None
        self._resumed = 0

    def look(self) -> int:
        """The step reached now; call it often."""
        rows, now = rows_of(self.run), time.monotonic()
        last = int(rows[-1]["step"]) if rows else 0
        resumed = events_of(self.run, "resumed")
        if len(resumed) > self._resumed:
            self._resumed = len(resumed)
            self.again = max(self.again, self.step - int(resumed[-1]["step"]))
        if last > self.step:
            if self._at is not None:
                self.gap = max(self.gap, now - self._at)
            self.step, self._at = last, now
        return last


class InThread(threading.Thread):
    """A training beside the test, which hurts it meanwhile from the main thread."""

    def __init__(self, run: Path, work) -> None:
        super().__init__(daemon=True)
        self.watched, self._work = Watched(run), work
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = error

    def until(self, what, seconds: float = 900.0) -> float:
        """Seconds until ``what()``; the run must not end before."""
        began = time.monotonic()
        while not what():
            assert self.is_alive(), self.error or "the run ended before"
            assert time.monotonic() - began < seconds, "waited in vain"
            self.watched.look()
            time.sleep(0.05)
        return time.monotonic() - began

    def to_the_end(self) -> None:
        """Wait for the run to end well."""
        assert until(lambda: self.watched.look() < 0 or not self.is_alive(), 1800, 0.05), "in vain"
        if self.error:
            raise self.error
