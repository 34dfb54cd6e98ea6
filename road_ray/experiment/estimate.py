"""``road reproduce NAME --dry-run``: the plans of the distinct jobs, summed.

Three steps of each distinct training are measured on this machine; its evaluation is counted as a
third of a training step for as many rows. Models that are not trained yet are replaced by ones of
the same size.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from road_ray.config import override, to_dict
from road_ray.data.load_split import read_unlabelled_rows
from road_ray.distributed.connection import connected
from road_ray.distributed.resource_estimate import available_resources
from road_ray.experiment import data_files
from road_ray.experiment.config import ReproduceConfig
from road_ray.experiment.expand import ANSWERS, Expanded, Job, as_base, expand
from road_ray.experiment.run import RECIPES
from road_ray.recipes.config import TrackingConfig
from road_ray.recipes.distillation.config import DistillConfig
from road_ray.recipes.finetuning.config import (
    FinetuneConfig,
    FinetuneDataConfig,
    TeachersConfig,
    judged_names,
)
from road_ray.recipes.multitask.config import MultitaskConfig
from road_ray.recipes.plan import sampled_corpus, timed_start
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.training.performance.profile import Measured
from road_ray.training.run_context import RunContext

_FORWARD = 1 / 3  # of the time of a training step, without backward pass and update


@dataclass(frozen=True)
class Work:
    """Steps, tokens and seconds of a job."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.steps + other.steps, self.tokens + other.tokens, self.seconds + other.seconds
        )


def estimate(config: ReproduceConfig) -> dict[str, Any]:
    """Return steps, tokens and hours of the teachers, their answers and every arm and seed, without
    those that have finished. Nothing is left in ``config.run_dir``.

    Raises the errors of the experiment.
    """
    with tempfile.TemporaryDirectory(prefix="road-plan-") as place:
        changes: dict[str, Any] = {"run_dir": Path(place) / "run", "console": "quiet"}
        # A mirror that holds steps of the estimate would be refused to the experiment itself.
        for section in ("", "multitask.", "continued.", "pretrain.", "probe."):
            changes[f"{section}training.mirror"] = None
        changes["gpus_per_worker"] = 0.0
        inner = override(config, changes).model_copy(update={"tracking": TrackingConfig()})
        with _threads(1 if config.max_concurrent else torch.get_num_threads()) as cores:
            return _Estimate(expand(inner), Path(place), config.run_dir).table(config, cores)


@contextmanager
def _threads(count: int) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield count
    torch.set_num_threads(before)


class _Estimate:
    """Measures each distinct training once."""

    def __init__(self, experiment: Expanded, place: Path, run_dir: Path) -> None:
        self.experiment, self.place, self.run_dir = experiment, place, run_dir
        self.jobs = {job.name: job for job in experiment.jobs}
        self.measured: dict[str, Measured] = {}
        self.models: dict[str, str] = {}
        self.rows: dict[str, int] = {}
        self.corpora: dict[str, tuple[dict[str, Any], float | None]] = {}

    def table(self, config: ReproduceConfig, cores: int) -> dict[str, Any]:
        finished = {name for name in self.jobs if self._is_finished(name)}
        works = {name: self._work(job) for name, job in self.jobs.items()}
        left = {name: 0.0 if name in finished else work.seconds for name, work in works.items()}
        rows: dict[tuple[str, int | None], list[str]] = {}
        for name, job in self.jobs.items():
            key = (job.arm, job.config.seed) if job.arm else (_title(job), None)
            rows.setdefault(key, []).append(name)
        side = max(1, min(config.max_concurrent, _cores(config)))
        return {
            "comparison": config.comparison,
            "rows": [_row(*key, names, works, finished) for key, names in rows.items()],
            "runs": sum(not finished.issuperset(names) for names in rows.values()),
            "core_hours": cores * sum(left.values()) / 3600,
            "hours": self._makespan(left, side) / 3600,
            "max_concurrent": side if config.max_concurrent else 0,
        }

    def _is_finished(self, name: str) -> bool:
        if self.jobs[name].verb == ANSWERS:
            return all(self._is_finished(n) for n, job in self.jobs.items() if name in job.after)
        return (self.run_dir / name / "metrics.json").is_file()

    def _makespan(self, seconds: Mapping[str, float], side: int) -> float:
        """Return the time until all jobs have ended, ``side`` at a time, each after those that it
        needs.
        """
        free, ends = [0.0] * side, dict[str, float]()
        for name, job in self.jobs.items():
            slot = free.index(min(free))
            begin = max(free[slot], *(ends[needed] for needed in job.after), 0.0)
            ends[name] = begin + seconds[name]
            if seconds[name]:
                free[slot] = ends[name]
        return max(ends.values(), default=0.0)

    # One job.

    def _work(self, job: Job) -> Work:
        config = job.config
        if isinstance(config, TeachersConfig):
            return Work()  # all of its trainings are jobs of their own
        if isinstance(config, PretrainConfig | MultitaskConfig):
            return self._total(self._measure(job.verb, self._alone(job)))
        assert isinstance(config, FinetuneConfig)
        plain = self._plain(config)
        measured = self._measure("finetune", plain)
        per_row = _FORWARD * measured.seconds_per_step / max(measured.rows_per_step, 1)
        judged = Work(
            0, 0, per_row * sum(self._judged(name, plain) for name in judged_names(plain))
        )
        if not isinstance(config, DistillConfig):
            return self._total(measured) + judged
        if job.verb == ANSWERS:
            rows, teachers = self._training_rows(config), config.distillation.teachers_per_row
            tokens = rows * measured.tokens_per_step / max(measured.rows_per_step, 1)
            return Work(0, round(tokens), per_row * rows * teachers)
        total = Work()
        for _ in range(config.distillation.generations):
            total += self._total(measured) + judged
        return total

    def _total(self, measured: Measured) -> Work:
        steps = measured.total_steps
        tokens = round(steps * measured.tokens_per_step)
        return Work(steps, tokens, steps * measured.seconds_per_step)

    def _measure(self, verb: str, config: Any) -> Measured:
        """Return the cost of a training; those that differ in their seed have the same."""
        free = {"run_dir", "seed", "console", "label_map"}
        key = str({name: value for name, value in to_dict(config).items() if name not in free})
        if key not in self.measured:
            rows = None
            if isinstance(config, PretrainConfig):
                changes, rows = self._sampled(config)
                config = override(config, changes | timed_start(config))
            context = RunContext(plan_only=True)
            RECIPES[verb](config, context=context)
            shutil.rmtree(config.run_dir)
            assert context.measured is not None, "a recipe ended without training"
            measured = context.measured
            self.measured[key] = measured if rows is None else measured.scaled(rows)
        return self.measured[key]

    def _alone(self, job: Job) -> Any:
        """Return the configuration of a job with models that are there."""
        changes: dict[str, Any] = {"run_dir": self.place / "timed"}
        init = str(getattr(job.config, "init", ""))
        if init and Path(init).is_relative_to(self.experiment.config.run_dir):
            pretraining = job.config if isinstance(job.config, PretrainConfig) else None
            changes["init"] = self._model(init, with_generator=pretraining is not None)
            if pretraining and pretraining.generator.init == init:
                changes["generator.init"] = changes["init"]
        config = override(job.config, changes)
        if isinstance(config, MultitaskConfig):  # its teachers have answered before
            return override(config, {"distillation": {}})
        return config

    def _plain(self, config: FinetuneConfig) -> FinetuneConfig:
        """Return a training without its teachers, of as many updates."""
        alone = self._alone(Job("", "finetune", config))
        if not isinstance(config, DistillConfig):
            return as_base(FinetuneConfig, alone)
        labelled = self._labelled(config)
        data = as_base(FinetuneDataConfig, alone.data)
        plain = as_base(FinetuneConfig, alone.model_copy(update={"data": data}))
        epochs = config.data.epochs * self._training_rows(config) / labelled
        return override(plain, {"data.epochs": epochs})

    def _model(self, init: str, *, with_generator: bool) -> str:
        """Return a model of the size of one that is not trained yet. The encoders of all arms of a
        comparison are equal, their generators are not.
        """
        config = self.experiment.config
        if not config.of_pretraining:
            return config.init
        job = self.experiment.jobs[0]
        if with_generator:
            job = self.jobs[Path(init).relative_to(config.run_dir).as_posix()]
        if job.name not in self.models:
            stage = self._alone(job)
            sample, _ = self._sampled(stage)
            one = {"training.steps": 1, "optimizer.warmup_steps": 0}
            changes = {**sample, **timed_start(stage), **one, "run_dir": self.place / job.name}
            self.models[job.name] = str(RECIPES["pretrain"](override(stage, changes)).directory)
        return self.models[job.name]

    def _sampled(self, config: PretrainConfig) -> tuple[dict[str, Any], float | None]:
        """Return the keys of a sample of the corpus, and the rows of a step of the whole."""
        key = str(config.data)
        if key not in self.corpora:
            place = self.place / f"corpus-{len(self.corpora)}"
            place.mkdir()
            self.corpora[key] = sampled_corpus(config, place)
        return self.corpora[key]

    # Rows.

    def _judged(self, name: str, config: FinetuneConfig) -> int:
        count = self._count(
            f"dev of {name}", lambda: data_files.count_rows(name, "dev", config.data)
        )
        return min(count, config.data.max_judged_rows or count)

    def _labelled(self, config: DistillConfig) -> int:
        name = config.data.dataset
        count = self._count(name, lambda: data_files.count_rows(name, "train", config.data))
        return min(count, config.data.max_rows or count)

    def _training_rows(self, config: DistillConfig) -> int:
        names, name = config.data.unlabelled_sources(), config.data.dataset
        read = lambda: len(read_unlabelled_rows(names, name, config.data))  # noqa: E731
        return self._labelled(config) + (self._count(f"{name} {names}", read) if names else 0)

    def _count(self, key: str, count: Any) -> int:
        if key not in self.rows:
            self.rows[key] = count()
        return self.rows[key]


def _row(
    arm: str, seed: int | None, names: list[str], works: Mapping[str, Work], finished: set[str]
) -> dict[str, Any]:
    """Return a line of the estimate: what is left of it, or all of it once it is finished."""
    left = [name for name in names if name not in finished] or names
    work = sum((works[name] for name in left), Work())
    row = {"arm": arm, "seed": seed, "steps": work.steps, "tokens": work.tokens}
    return row | {"seconds": work.seconds, "finished": finished.issuperset(names)}


def _title(job: Job) -> str:
    """Return the name of a line of the estimate that is not of an arm."""
    return job.name if job.verb == ANSWERS else Path(job.name).parts[1]


def _cores(config: ReproduceConfig) -> int:
    """Return the cores of the cluster, or of this machine."""
    if config.address is None:
        return os.cpu_count() or 1
    with connected(config.address):
        return int(available_resources().get("CPU", 1))
