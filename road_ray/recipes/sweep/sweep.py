"""``road sweep``: start a sweep, resume it, or return a finished one, all by the same command. The
result is its trials, the best of them, and the files that record them.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.config import override, to_yaml
from road_ray.distributed.connection import connected, prepare_address
from road_ray.distributed.tune.one_trial import DIVERGED, Record, trial_directory
from road_ray.distributed.tune.search_config import StageDemand
from road_ray.errors import DivergedError, ResourceError
from road_ray.recipes.preflight_checks import require_init, require_splits
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.run_directory.recorded_config import require_same
from road_ray.recipes.run_directory.run import lock_run_directory
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.sweep.trials import SECOND, TrialRunner, base_config, load_sweep
from road_ray.recipes.train.config import DistillConfig
from road_ray.recipes.train.find_teachers import find_teachers, locate_teachers
from road_ray.recipes.train.train import label_training_rows
from road_ray.reporting.records.sweep_record import RECORD, best_of
from road_ray.reporting.report import write_report
from road_ray.system.files import write_atomic, write_json_atomic

if TYPE_CHECKING:
    from road_ray.distributed.teachers import ActorEnsemble


_DATA = ("data.root", "data.dataset", "data.sets")  # keys that name files
# Keys that decide the teachers, their answers and the rows that they answer.
_SETTINGS = (
    *("teachers", "num_teachers", "precision", "label_map"),
    *("torch_compile", "host", "answers", "store"),
)
_OF_TEACHERS = ("data.", "init", *(f"distillation.{key}" for key in _SETTINGS))


def sweep(
    path: str | Path, overrides: Sequence[str] | Mapping[str, Any] = (), **keys: object
) -> Sweep:
    """Run the search space of a file or a shipped name; its keys are keyword arguments:
    ``trials=32``.

    Finished trials of an earlier start are reused, running ones resume from their checkpoints.

    >>> import road_ray as rr
    >>> found = rr.sweep("temperature", trials=32)  # doctest: +SKIP
    """
    return run(load_sweep(path, overrides, **keys))


def run(config: SweepConfig) -> Sweep:
    """Run the sweep of a configuration.

    Mistakes that can be detected are raised before the first trial. If no trial is complete,
    ``DivergedError`` is raised where all of them diverged, else ``ResourceError``.
    """
    demand = check_sources(config)
    prepare_address(config.address)
    directory = config.directory

    @contextmanager
    def started() -> Iterator[TrialRunner]:
        address = connected(config.address, dashboard=bool(demand))
        with address, teachers_of_trials(config) as pool:
            yield TrialRunner(config, pool)

    # Ray Tune, which neither a plan nor a refused sweep needs.
    from road_ray.distributed.tune.driver import search

    with lock_run_directory(directory):
        if (directory / "trials").is_dir() and (directory / RECORD).is_file():
            require_same(config, directory, RECORD)
        write_atomic(directory / RECORD, to_yaml(config))
        changed = _printed(config) if config.console == "plain" else lambda record: None
        trials = search(config, config.name, directory, started, changed=changed, demand=demand)
        done = Sweep(directory, config, trials)
        if config.keep == "best":
            _remove_models(done)
        if done.best:
            write_json_atomic(directory / "metrics.json", dict(done.best[0].figures))
        write_report(directory)
    if not done.best:
        done.check()
    return done


def taught_alike(config: SweepConfig) -> DistillConfig | None:
    """Return the configuration of the first stage if all trials have the same teachers and rows
    there, else None.
    """
    base = base_config(config.stages[0])
    if not isinstance(base, DistillConfig) or any(
        key.startswith(_OF_TEACHERS) for key in config.space
    ):
        return None
    settings = base.distillation
    if settings.answers != "live":
        return override(base, {"distillation.store": settings.store or config.directory / "store"})
    return base if settings.host == "actors" else None


@contextmanager
def teachers_of_trials(config: SweepConfig) -> Iterator[ActorEnsemble | None]:
    """Have the teachers answer the rows of all trials, or yield their actors in the connected
    cluster until this is left. None: the trials need no actors of the driver.
    """
    base = taught_alike(config)
    if base is None:
        yield None
    elif base.distillation.answers == "live":
        (teachers,) = find_teachers(base).values()
        with teachers.start_pool(base.workers) as ensemble:
            yield ensemble
    else:
        label_training_rows(base)
        yield None


def _printed(config: SweepConfig) -> Callable[[Record], None]:
    """Return a function that writes a line for a trial that has started or ended."""
    ended = set[int]()

    def changed(record: Record) -> None:
        line = f"trial {record.number} {record.state}"
        line += "".join(f" {value:.4g}" for value in record.values)
        line += f" ({record.reason.splitlines()[0]})" if record.reason else ""
        for key, value in record.params.items():
            text = f"{value:.4g}" if isinstance(value, float) else json.dumps(value).strip('"')
            line += f"  {key}={text}"
        if record.state != "running":
            ended.add(record.number)
            line += f"; {len(ended)} of {max(config.most_trials, len(ended))} trials"
        print(line, file=sys.stderr, flush=True)

    return changed


def _remove_models(done: Sweep) -> None:
    """Remove models and checkpoints of the trials that are not among the best."""
    best = {trial_directory(done.directory, trial.number) for trial in done.best}
    for name in ("checkpoints", "hf"):
        for large in [*done.directory.glob(f"trials/*/seed-*/**/{name}")]:
            if best.isdisjoint(large.parents):
                shutil.rmtree(large, ignore_errors=True)


def check_sources(config: SweepConfig) -> tuple[StageDemand, ...]:
    """Return the processes that trials start beside their own, by stage; empty if they start none.

    Raises ``ConfigError`` if the initial model or a teacher is missing, ``DataError`` if a training
    file is.
    """
    drawn = [key.removeprefix(SECOND) for key in config.space]
    stages = []
    for place, stage in enumerate(config.stages):
        base: Any = base_config(stage)
        if place == 0 and stage.verb != "pretrain" and "init" not in drawn:
            require_init(base.init)
        taught = bool(locate_teachers(base)) and base.distillation.host == "actors"
        of_driver = place == 0 and taught_alike(config) is not None
        side = getattr(base, "max_concurrent", None) or 0  # runs in parallel, which wait for room
        workers, own = base.workers or side, taught and not of_driver
        least = (base.min_workers or base.workers) if base.workers else min(side, 1)
        stages.append(StageDemand(workers, base.gpus_per_worker, least, teachers=own))
        if any(key.startswith(_DATA) for key in drawn):
            continue
        if not isinstance(base, PretrainConfig):
            require_splits(base.data.splits(), "overrides.data.root=DIRECTORY of the data sets")
    return tuple(stages) if any(stage.workers or stage.teachers for stage in stages) else ()


@dataclass(frozen=True)
class Sweep:
    """A finished sweep."""

    directory: Path
    config: SweepConfig
    trials: Sequence[Record]

    @property
    def best(self) -> Sequence[Record]:
        """Return the best trial of this sweep or, with several metrics, the Pareto front."""
        done = [trial for trial in self.trials if trial.state == "complete"]
        return best_of(done, [mode == "max" for mode in self.config.mode])

    @property
    def failed(self) -> Sequence[Record]:
        """Return the failed trials that no other trial has retried. Diverged trials do not count:
        divergence is a result of their values.
        """
        retried = {trial.retry_of for trial in self.trials}
        failed = [trial for trial in self.trials if trial.state == "failed"]
        failed = [trial for trial in failed if not trial.reason.startswith(DIVERGED)]
        return [trial for trial in failed if trial.number not in retried]

    def check(self) -> None:
        """Raise ``ResourceError`` if trials failed, and ``DivergedError`` if all of them diverged,
        which is a result of their values. All results are written.
        """
        diverged = [trial for trial in self.trials if trial.state == "failed"]
        if self.failed:
            fix = "remove the cause, then run the same command with retry_failed=true"
            raise ResourceError(self._told(self.failed, fix))
        if diverged and not self.best:
            fix = "name=ANOTHER with a space of lower rates (optimizer.peak_lr), or other overrides"
            raise DivergedError(self._told(diverged, fix))

    def _told(self, failed: Sequence[Record], fix: str) -> str:
        return (
            f"{len(failed)} of {len(self.trials)} trials failed, the first is {failed[0].number}:\n"
            f"  {failed[0].reason}\n  fix: {fix}\n"
            f"  kept: all trials in {self.directory}, with each failed one's error.txt"
        )
