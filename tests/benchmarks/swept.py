"""What a sweep costs beside the runs that it makes: the time between trials and up to their first
step, and what of it is Ray Tune's own.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from road_ray.config import load
from road_ray.distributed.tune.driver import search
from road_ray.distributed.tune.one_driver_at_a_time import sweep_lock
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.trial_record import OnReport, Outcome
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.sweep.stages import runs_of
from road_ray.recipes.sweep.sweep_file import load_sweep
from road_ray.recipes.sweep.trial_runs import Trial
from road_ray.training.run_context import RunContext
from road_ray.verbs import VERBS
from tests.benchmarks.plan import Row, row
from tools.miniature import write

AIM_SECONDS = 3.0  # beside the recipe, a trial, once the cluster is up
_SPACE = """
verb: pretrain
metric: train/mlm
mode: min
scheduler: none
console: quiet
space: {optimizer.peak_lr: {loguniform: [1.0e-4, 1.0e-2]}}
overrides:
  objective.name: mlm
  data: {vocab_size: 400, max_length_tokens: 32, batch_size: 8}
  encoder: {layers: 1, hidden_size: 32, heads: 2, intermediate_size: 64, embedding_size: 16}
  optimizer.warmup_steps: 2
  training: {steps: 6, log_every_steps: 1}
"""


@dataclass(frozen=True)
class Moments:
    """Of one run, in seconds of one clock: asked for, at its first step, ended."""

    began: float
    stepped: float
    ended: float


@dataclass(frozen=True)
class Timed:
    """A trial that writes down its moments."""

    trial: Trial

    def __call__(self, directory: Path, params: Mapping[str, Any], on_report: OnReport) -> Outcome:
        began, first = time.time(), []

        def seen(report: Any) -> None:
            first.append(time.time())
            on_report(report)

        outcome = self.trial(directory, params, seen)
        line = [began, first[0], time.time()]
        with (directory.parents[1] / "moments.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return outcome


@contextmanager
def cluster() -> Iterator[None]:
    """Two cores, up; its processes find this package."""
    from road_ray.distributed.connection import connected

    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    with connected(num_cpus=2):
        yield


def small(place: Path) -> SweepConfig:
    """A sweep of pre-trainings of six steps on the miniature world."""
    (place / "small.yaml").write_text(_SPACE, encoding="utf-8")
    world = write(place / "world", size=0.05)
    return load_sweep(
        place / "small.yaml", [f"data.root={world}", f"data.shards={place / 'shards'}"]
    )


def bare(config: SweepConfig, place: Path) -> Moments:
    """The recipe alone in this process."""
    first: list[float] = []
    began = time.time()
    ((verb, run),) = runs_of(config, {"optimizer.peak_lr": 1e-3}, place, 0)
    VERBS[verb].run(run, context=RunContext(on_row=lambda *row: first.append(time.time())))
    return Moments(began, first[0], time.time())


def swept(config: SweepConfig, place: Path, *, trials: int, max_concurrent: int) -> list[Moments]:
    """The same recipe as trials of a sweep."""
    chosen = config.model_copy(
        update={"run_dir": place, "trials": trials, "max_concurrent": max_concurrent}
    )
    with sweep_lock(place):
        search(chosen, place.name, place, Timed(Trial(chosen)), connected=nullcontext)
    lines = (place / "moments.jsonl").read_text(encoding="utf-8").splitlines()
    return [Moments(*json.loads(line)) for line in lines]


def gaps(moments: list[Moments], max_concurrent: int) -> list[float]:
    """From the end of a trial to the beginning of the one that takes its place."""
    begins = sorted(item.began for item in moments)[max_concurrent:]
    ends = sorted(item.ended for item in moments)
    return [began - ended for began, ended in zip(begins, ends, strict=False)]


def overheads(max_concurrent: int, *, trials: int, repeats: int) -> dict[str, float]:
    """Medians in seconds, the recipe alone and in a sweep in turn: ``recipe``, ``gap`` between
    trials, ``start`` up to the first step beyond what the recipe alone takes.
    """
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        config = small(place)
        bare(config, place / "warm")
        alone, within, between = [], [], []
        for turn in range(repeats):
            alone += [bare(config, place / f"bare-{turn}-{n}") for n in range(trials)]
            moments = swept(
                config, place / f"sweep-{turn}", trials=trials, max_concurrent=max_concurrent
            )
            between += gaps(moments, max_concurrent)
            within += moments
    alone_first = statistics.median(item.stepped - item.began for item in alone)
    swept_first = statistics.median(item.stepped - item.began for item in within)
    return {
        "recipe": statistics.median(item.ended - item.began for item in alone),
        "gap": statistics.median(between),
        "start": max(0.0, swept_first - alone_first),
    }


def trivial(directory: Path, params: Mapping[str, Any], on_report: OnReport) -> Outcome:
    """A trial without work."""
    return Outcome([float(params["x"])], [None], {})


def ours_seconds(trials: int, max_concurrent: int) -> float:
    """Seconds a trivial trial of ours."""
    base = {"metric": "m", "scheduler": "none", "space": {"x": {"uniform": [0, 1]}}}
    config = load(SearchConfig, base=base | {"trials": trials, "max_concurrent": max_concurrent})
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "s"
        with sweep_lock(place):
            began = time.perf_counter()
            search(config, "s", place, trivial, connected=nullcontext)
            return (time.perf_counter() - began) / trials


def tune_seconds(trials: int, max_concurrent: int) -> float:
    """Seconds a trivial trial of Ray Tune as it comes, with a random draw."""
    from ray import tune

    def function(config: Mapping[str, Any]) -> None:
        tune.report({"m": config["x"]})

    with tempfile.TemporaryDirectory() as name:
        tuner = tune.Tuner(
            tune.with_resources(function, {"cpu": 1}),
            param_space={"x": tune.uniform(0, 1)},
            tune_config=tune.TuneConfig(num_samples=trials, max_concurrent_trials=max_concurrent),
            run_config=tune.RunConfig(storage_path=name, verbose=0),
        )
        began = time.perf_counter()
        tuner.fit()
        return (time.perf_counter() - began) / trials


def trivials(max_concurrent: int, *, trials: int, repeats: int) -> tuple[float, float]:
    """Seconds a trivial trial, ours and Tune's, in turn; medians."""
    ours, tunes = [], []
    for _ in range(repeats):
        tunes.append(tune_seconds(trials, max_concurrent))
        ours.append(ours_seconds(trials, max_concurrent))
    return statistics.median(ours), statistics.median(tunes)


def rows(
    *, trials: int, trivial_trials: int, repeats: int, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """The rows of bench.json, in trials a second: more is better."""
    table = []
    with cluster():
        for max_concurrent in (1, 2):
            seconds = overheads(max_concurrent, trials=trials, repeats=repeats)
            cost = seconds["gap"] + seconds["start"]
            say(
                f"  {max_concurrent} at a time: the recipe {seconds['recipe']:.2f} s; beside it "
                f"{cost:.2f} s: {seconds['gap']:.2f} s from end to next start, "
                f"{seconds['start']:.2f} s more up to the first step"
            )
            peer = f"the aim of {AIM_SECONDS:g} s, {max_concurrent} at a time"
            share = seconds["recipe"] / (seconds["recipe"] + cost)
            table.append(_rate(peer, cost, AIM_SECONDS, share, repeats))
        for max_concurrent in (1, 2):
            ours, tunes = trivials(max_concurrent, trials=trivial_trials, repeats=repeats)
            peer = f"Tune alone, {trivial_trials} trivial trials, {max_concurrent} at a time"
            table.append(_rate(peer, ours, tunes, tunes / ours, repeats))
    return table


def _rate(peer: str, ours: float, theirs: float, share: float, repeats: int) -> Row:
    """Seconds a trial, as a rate: more is better in every row."""
    rates = 1 / ours, 1 / theirs
    return row("sweep", peer, "trials/s", *rates, repeats=repeats, limit_share=share)
