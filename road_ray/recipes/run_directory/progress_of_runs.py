"""Progress of runs in other processes, read from their directories."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from road_ray.training.monitoring.console_progress import Console
from road_ray.training.monitoring.metrics_journal import last_row

_POLL_SECONDS = 2.0


@contextmanager
def show_progress(title: str, steps: Mapping[Path, int], console: Console) -> Iterator[None]:
    """Show on ``console`` how many steps all runs together have done, until the block is left.
    ``steps`` maps each run directory to the steps of its run.
    """
    finished, total = threading.Event(), sum(steps.values())

    def look() -> None:
        while not finished.wait(_POLL_SECONDS):
            done = sum(steps_done(directory, most) for directory, most in steps.items())
            if done < total:
                console.part(title, done, total)
            else:
                ended = sum((directory / "metrics.json").is_file() for directory in steps)
                console.part(f"{title}: evaluating", ended, len(steps))

    thread = threading.Thread(target=look, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def steps_done(directory: Path, total: int) -> int:
    """Return the last step in a run's journal, at most ``total``."""
    if (directory / "metrics.json").is_file():
        return total
    row = last_row(directory / "metrics.jsonl")
    return 0 if row is None else min(int(row["step"]), total)
