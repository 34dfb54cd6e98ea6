"""A driver to be killed: twelve trials, of which one raises, one is no number and one hangs.

python -m tests.distributed.sweep_driver SWEEP_DIRECTORY RAY_DIRECTORY
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STEPS, RAISES, NAN, HANGS = 8, 3, 5, 7


def run(directory, params, tell):
    """Eight steps with a checkpoint after each; every step leaves a line in the sweep's log."""
    from road_ray.distributed.sweep_record import Outcome, Report

    number, kept = int(directory.name), directory / "step"
    done = int(kept.read_text()) if kept.is_file() else 0
    for step in range(done + 1, STEPS + 1):
        time.sleep(0.3)
        if number == HANGS and step == 3:
            time.sleep(3600)
        staged = directory / "staged"
        staged.write_text(str(step))
        staged.replace(kept)
        with (directory.parents[1] / "log").open("a") as log:
            log.write(f"{number} {step} {os.getpid()}\n")
        if number == RAISES and step == 4:
            raise ValueError("trial 3 always fails")
        tell(Report(step, 100.0 * step / (STEPS + 1), params["x"]))
    value = float("nan") if number == NAN else params["x"]
    return Outcome([value], [None], {"m": value})


@contextmanager
def cluster(place: str) -> Iterator[None]:
    import ray

    ray.init(
        address="local",
        _temp_dir=place,
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        logging_level="ERROR",
    )
    try:
        yield
    finally:
        ray.shutdown()


def main(directory: str, place: str) -> None:
    from road_ray.config import load
    from road_ray.distributed.sweep import search
    from road_ray.distributed.sweep_lock import locked
    from road_ray.distributed.sweep_space import SearchConfig
    from tests.distributed.sweep_driver import run as trial

    base = {"metric": "m", "trials": 12, "space": {"x": {"uniform": [0, 1]}}}
    how = {"trial_timeout_seconds": 25, "at_once": 2, "scheduler": "none"}
    config = load(SearchConfig, base=base | how)
    with locked(Path(directory)):
        search(config, "s", Path(directory), trial, connected=lambda: cluster(place))


if __name__ == "__main__":
    main(*sys.argv[1:])
