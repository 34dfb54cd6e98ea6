"""A driver to be killed: twelve trials, of which one raises, one is no number and one hangs; or,
``nested``, two that each train in a Ray worker of their own.

python -m tests.distributed.sweep_driver SWEEP_DIRECTORY CLUSTER [nested]
CLUSTER: the address of one that stays, or a directory for one that ends with the driver.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

STEPS, RAISES, NAN, HANGS = 8, 3, 5, 7


def steps(directory: Path, pace: float = 0.3) -> Iterator[int]:
    """Eight steps with a checkpoint after each; every step leaves a line in the sweep's log."""
    file = directory / "step"
    done = int(file.read_text()) if file.is_file() else 0
    for step in range(done + 1, STEPS + 1):
        time.sleep(pace)
        yield step
        staged = directory / "staged"
        staged.write_text(str(step))
        staged.replace(file)
        with (directory.parents[1] / "log").open("a") as log:
            log.write(f"{directory.name} {step} {os.getpid()}\n")


def run(directory, record, on_report):
    """One trial of the twelve."""
    number = int(directory.name)
    for step in steps(directory):
        if number == HANGS and step == 3:
            time.sleep(3600)
        if number == RAISES and step == 5:
            raise ValueError("trial 3 always fails")
        on_report(step, STEPS + 1, record.params["x"])
    value = float("nan") if number == NAN else record.params["x"]
    return replace(record, values=(value,), deviation=(None,), figures={"m": value})


def work(config, worker, context, value):
    """What the worker of a nested trial does."""
    from road_ray.training.monitoring.metrics_journal import Journal
    from road_ray.training.monitoring.trackers import Tracker

    directory = config.run_dir
    report = Tracker(lambda step, row: context.on_row(step, STEPS, row))
    with Journal(directory, console="quiet", trackers={"callback": lambda: report}) as journal:
        for step in steps(directory, pace=1.5):
            journal.write(step, {"m": value})
    return {"m": value}


def run_nested(directory, record, on_report):
    """A trial whose worker, in another process, tells what the scheduler hears."""
    from road_ray.recipes.config import RunConfig
    from road_ray.recipes.run_directory.run import launch
    from road_ray.training.run_context import RunContext
    from tests.distributed.sweep_driver import work

    def see(step, total, row):
        if step < total:
            on_report(step, total, row["m"])

    value = 1.0 - int(directory.name)  # each trial is worse than those before
    config = RunConfig(workers=1, run_dir=directory)
    metrics = launch(work, config, value, context=RunContext(on_row=see))
    return replace(record, values=(metrics["m"],), deviation=(None,), figures=metrics)


@contextmanager
def cluster(place: str, trial: Callable[..., object]) -> Iterator[Callable[..., object]]:
    """``trial`` on the cluster at an address, or on one of our own in a directory."""
    import ray

    from tests.cluster import own_cluster

    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if Path(place).is_dir():
        with own_cluster(2, place, **quiet):
            yield trial
    else:
        with ray.init(address=place, **quiet):
            yield trial


def main(directory: str, place: str, kind: str = "") -> None:
    from road_ray.config import load
    from road_ray.distributed.tune.driver import search
    from road_ray.distributed.tune.search_config import SearchConfig, StageDemand
    from tests.distributed import sweep_driver

    nested = kind == "nested"
    how = {"trials": 12, "trial_timeout_seconds": 25, "max_concurrent": 2, "scheduler": "none"}
    if nested:
        how = {"trials": 2, "max_concurrent": 1, "scheduler": "asha"}
    config = load(SearchConfig, base={"metric": "m", "space": {"x": {"uniform": [0, 1]}}} | how)
    trial = sweep_driver.run_nested if nested else sweep_driver.run
    at = Path(directory)
    demand = (StageDemand(),) if nested else ()
    search(config, "s", at, lambda: cluster(place, trial), demand=demand)


if __name__ == "__main__":
    main(*sys.argv[1:])
