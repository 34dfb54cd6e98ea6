"""``road reproduce NAME --dry-run``: estimate the time of every arm and seed on this machine.

A few steps of each model size are run and timed; numbers of steps and tokens are exact. Core time
is the CPU time of this process, which does not depend on other programs on the machine.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from road_ray.config import override
from road_ray.data.batch_order import padded_width
from road_ray.data.batching import Batching, BatchStream
from road_ray.data.features.examples_and_features import Features
from road_ray.data.load_split import load_split
from road_ray.data.tokenizer import load_tokenizer
from road_ray.evaluation.evaluate_split import evaluate_split, evaluation_tokens
from road_ray.models.encoder import load_encoder, model_directory
from road_ray.objectives.supervised import Supervised
from road_ray.recipes.comparison.config import ReproduceConfig
from road_ray.recipes.comparison.finetuning_plan import Job, Plan, as_base, make_plan
from road_ray.recipes.config import RunConfig, TrackingConfig
from road_ray.recipes.distillation.config import DistillConfig
from road_ray.recipes.finetuning.config import (
    FinetuneConfig,
    FinetuneDataConfig,
    TeachersConfig,
    judged_names,
)
from road_ray.recipes.finetuning.finetune import finetune, prepare
from road_ray.recipes.finetuning.train_teachers import single_teachers
from road_ray.recipes.multitask.config import MultitaskConfig
from road_ray.recipes.multitask.multitask import multitask
from road_ray.recipes.pretraining.pretrain import pretrain
from road_ray.training.performance.compile import configure_networks
from road_ray.training.run_context import RunContext
from road_ray.training.worker import Worker

_STEPS = 8  # timed, after one that warms up
_JUDGED = 64  # rows of the timed evaluation


@dataclass(frozen=True)
class Seconds:
    """Time that has passed, and CPU time of all threads."""

    wall: float = 0.0
    cores: float = 0.0

    @classmethod
    def now(cls) -> Seconds:
        """Return the readings of both clocks."""
        return cls(time.perf_counter(), time.process_time())

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall + other.wall, self.cores + other.cores)

    def __sub__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall - other.wall, self.cores - other.cores)

    def __mul__(self, factor: float) -> Seconds:
        return Seconds(self.wall * factor, self.cores * factor)


@dataclass(frozen=True)
class Speed:
    """Times of a model on this machine: per token, padding included, of training and of evaluation,
    and per run for load, save and export (``once``).
    """

    train: Seconds
    judge: Seconds
    once: Seconds
    load: Seconds  # of a model, part of ``once``


@dataclass(frozen=True)
class Work:
    """Steps, tokens with padding and time of one training."""

    steps: int
    tokens: int
    time: Seconds


def estimate_comparison(config: ReproduceConfig) -> dict[str, Any]:
    """Return steps, tokens and hours of the teachers, the store and every arm and seed, without
    those that have finished. Nothing is left in ``config.run_dir``.

    Raises the errors of the comparison.
    """
    with tempfile.TemporaryDirectory(prefix="road-plan-") as place:
        changes = {"run_dir": Path(place) / "run", "console": "quiet", "max_concurrent": 0}
        inner = config.model_copy(update=changes | {"tracking": TrackingConfig()})
        return _Estimate(config, make_plan(inner), Path(place)).table()


class FinetuningTimes:
    """Times of fine-tunings of one model on this machine, each kind of them measured once."""

    def __init__(self, init: str, place: Path) -> None:
        self.init, self.place = init, place
        self.speeds: dict[str, Speed] = {}
        self.rows: dict[str, Features] = {}

    def work(self, config: FinetuneConfig) -> Work:
        """Return the work of a fine-tuning, with its evaluation."""
        speed, features = self.speed(config), self.features(config)
        stream = _stream(features, config)
        updates = stream.batches_per_epoch * config.data.epochs / config.training.passes
        steps = config.training.steps or max(1, math.ceil(updates))
        tokens = sum(_padded(stream, features, n) for n in range(steps * config.training.passes))
        return Work(steps, tokens, speed.train * tokens + self.judged(config) + speed.once)

    def judged(self, config: FinetuneConfig) -> Seconds:
        """Return the time of evaluating one model on all dev splits of a fine-tuning."""
        tokens = 0
        for name in judged_names(config):
            tokens += evaluation_tokens(self.split(name, "dev", config))
        return self.speed(config).judge * tokens

    def speed(self, config: FinetuneConfig) -> Speed:
        """Return the speed of a model and its rows."""
        data = config.data
        names = (data.dataset, config.student.layers, data.batch_size, data.max_length_tokens)
        key = str(names)
        if key not in self.speeds:
            plain = {"data": as_base(FinetuneDataConfig, data), "init": self.init}
            timed = as_base(FinetuneConfig, config).model_copy(update=plain)
            if not self.speeds:  # excludes imports and other work that this process does once
                _measured(timed, self.place / "timed", num_steps=1)
            self.speeds[key] = _measured(timed, self.place / "timed")
        return self.speeds[key]

    def features(self, config: FinetuneConfig) -> Features:
        """Return the training rows of a fine-tuning."""
        return self.split(config.data.dataset, "train", config)

    def split(self, name: str, split: str, config: FinetuneConfig) -> Features:
        """Return the rows of a split."""
        data = config.data
        key = str((name, split, data.unlabelled_sources(), data.held_out_fold, data.num_folds))
        if key not in self.rows:
            train = split == "train"
            self.rows[key] = load_split(
                name,
                split,
                data,
                load_tokenizer(model_directory(self.init)),
                keep=data.learns_from if train else None,
                unlabelled=data.unlabelled_sources() if train else (),
            ).features
        return self.rows[key]


class _Estimate:
    """Estimator that times the models of a plan and adds up its trainings."""

    def __init__(self, config: ReproduceConfig, plan: Plan, place: Path) -> None:
        self.config, self.plan, self.place = config, plan, place
        self.inner = place / "run"
        self.times = FinetuningTimes(config.init, place)
        self.stages: dict[str, Work] = {}

    def table(self) -> dict[str, Any]:
        rows = [*self._ensembles(), *self._stores(), *self._units()]
        return totals(self.config, rows, {arm.name for arm in self.plan.arms})

    def _ensembles(self) -> list[dict[str, Any]]:
        rows = []
        for ensemble in self.plan.ensembles:
            single = single_teachers(ensemble)
            works = [self._finetuning(config) for config in single]
            judged = (self.times.judged(single[0]) + self.times.speed(single[0]).load) * len(single)
            work = sum_of([*works, Work(0, 0, judged)])
            rows.append(self._row(ensemble.run_dir.name, ensemble.seed, work, [ensemble.run_dir]))
        return rows

    def _stores(self) -> list[dict[str, Any]]:
        """Return the rows of filling the store: every teacher reads each of its rows once."""
        work: dict[str, Work] = {}
        students: dict[str, list[Path]] = {}
        for unit in self.plan.units:
            for job in unit.jobs:
                if isinstance(job.config, DistillConfig):
                    name = self._ensemble_of(job.config).run_dir.name
                    students.setdefault(name, []).append(job.config.run_dir)
        for config in self.plan.distillations:
            speed, features = self.times.speed(config), self.times.features(config)
            stream = _stream(features, config)  # as many batches as the store fills, in other order
            tokens = sum(_padded(stream, features, n) for n in range(stream.batches_per_epoch))
            spent = (speed.judge * tokens + speed.load) * config.distillation.num_teachers
            name = self._ensemble_of(config).run_dir.name
            if name not in work or spent.wall > work[name].time.wall:
                work[name] = Work(0, tokens, spent)
        return [
            self._row(f"answers of {name}", None, filling, students[name])
            for name, filling in work.items()
        ]

    def _units(self) -> list[dict[str, Any]]:
        rows = []
        for unit in self.plan.units:
            unfinished = [job for job in unit.jobs if not self._is_finished(job.config.run_dir)]
            work = sum_of([self._job(job) for job in unfinished])
            places = [job.config.run_dir for job in unit.jobs]
            rows.append(self._row(unit.arm, unit.seed, work, places))
        return rows

    def _row(
        self, arm: str, seed: int | None, work: Work, places: Sequence[Path]
    ) -> dict[str, Any]:
        finished = all(self._is_finished(place) for place in places)
        return row_of(arm, seed, work, finished=finished)

    def _is_finished(self, place: Path) -> bool:
        return (self.config.run_dir / place.relative_to(self.inner) / "metrics.json").is_file()

    # One training.

    def _job(self, job: Job) -> Work:
        config = job.config
        if isinstance(config, FinetuneConfig):
            return self._finetuning(config)
        key = f"{job.verb}{getattr(config, 'objective', '')}{getattr(config, 'mixing', '')}"
        if key not in self.stages:
            self.stages[key] = self._stage(config)
        return self.stages[key]

    def _stage(self, config: RunConfig) -> Work:
        """Return the work of a multi-task or a further pre-training."""
        alone = config.model_copy(update={"run_dir": self.place / "stage"})
        if isinstance(alone, MultitaskConfig):
            return measured_work(multitask, override(alone, {"distillation": {}}), None)
        return measured_work(pretrain, alone, None)

    def _finetuning(self, config: FinetuneConfig) -> Work:
        """Return the work of a fine-tuning, with its evaluation and all of its generations."""
        work = self.times.work(config)
        if not isinstance(config, DistillConfig):
            return work
        settings, spent = config.distillation, work.time
        folds = self._ensemble_of(config).num_folds
        load = self.times.speed(config).load  # the parity check loads every teacher
        spent += load * (settings.num_teachers * folds)
        if (count := settings.generations) > 1:
            spent = (spent + self.times.judged(config)) * count
        return Work(count * work.steps, count * work.tokens, spent)

    def _ensemble_of(self, config: DistillConfig) -> TeachersConfig:
        return self.plan.ensembles_of(config)[0]


def _measured(config: FinetuneConfig, place: Path, num_steps: int = _STEPS) -> Speed:
    """Run ``num_steps`` steps of a fine-tuning, after one that warms up, and return its speed."""
    began = Seconds.now()
    load_encoder(model_directory(config.init))
    load = Seconds.now() - began
    small = override(
        config,
        {
            "run_dir": place,
            "training.steps": 1 + num_steps,
            "training.log_every_steps": 1,
            "training.evaluate_every_steps": None,
            "training.keep_checkpoints_at_end": 1,  # says nothing; its directory is removed
            "data.max_judged_rows": min(_JUDGED, config.data.max_judged_rows or _JUDGED),
        },
    )
    prepared = prepare(small, Worker.alone())  # fills the caches that later runs find
    configure_networks(Supervised(prepared.model), False, False)
    began, tokens, pad_id = Seconds.now(), 0, int(prepared.tokenizer.pad_token_id)
    for split in prepared.judged.values():
        evaluate_split(prepared.model, split, pad_id=pad_id, device=Worker.alone().device)
        tokens += evaluation_tokens(split.features)
    judged = Seconds.now() - began
    ends: list[Seconds] = []
    began = Seconds.now()
    finetune(small, RunContext(on_row=lambda *_: ends.append(Seconds.now())))
    total = Seconds.now() - began
    shutil.rmtree(place)
    steps = ends[num_steps] - ends[0]
    passes, stream = small.training.passes, prepared.stream
    read = sum(
        _padded(stream, prepared.split.features, number)
        for number in range(passes, (1 + num_steps) * passes)
    )
    train = steps * (1 / read)
    first = train * sum(_padded(stream, prepared.split.features, n) for n in range(passes))
    once = total + (steps + first + judged) * -1
    return Speed(train, judged * (1 / tokens), once, load)


def measured_work(recipe: Callable[..., object], config: RunConfig, rows: float | None) -> Work:
    """Return the work of a long training from three measured steps. ``rows`` is the number of rows
    of a step where the measured batches are those of a sample.
    """
    context, began = RunContext(plan_only=True), Seconds.now()
    recipe(config, context)
    shutil.rmtree(config.run_dir)
    spent, measured = Seconds.now() - began, context.measured
    assert measured is not None, "a recipe ended without training"
    measured = measured if rows is None else measured.scaled(rows)
    tokens = round(measured.total_steps * measured.tokens_per_step)
    seconds = measured.total_steps * measured.seconds_per_step
    return Work(measured.total_steps, tokens, Seconds(1.0, spent.cores / spent.wall) * seconds)


def row_of(arm: str, seed: int | None, work: Work, *, finished: bool) -> dict[str, Any]:
    """Return a line of the estimate."""
    row: dict[str, Any] = {"arm": arm, "seed": seed, "steps": work.steps}
    row |= {"tokens": work.tokens, "seconds": work.time.wall, "core_seconds": work.time.cores}
    return row | {"finished": finished}


def totals(
    config: ReproduceConfig, rows: Sequence[dict[str, Any]], arms: Container[str]
) -> dict[str, Any]:
    """Return the estimate of its rows; those of ``arms`` run side by side."""
    unfinished = [row for row in rows if not row["finished"]]
    seconds = sum(row["seconds"] for row in unfinished)
    parallel = [row["seconds"] for row in unfinished if row["arm"] in arms]
    side = max(1, min(config.max_concurrent, os.cpu_count() or 1, len(parallel)))
    alone = seconds - sum(parallel)
    return {
        "comparison": config.comparison,
        "rows": rows,
        "runs": len(unfinished),
        "core_hours": sum(row["core_seconds"] for row in unfinished) / 3600,
        "hours": (alone + sum(parallel) / side) / 3600,
        "max_concurrent": config.max_concurrent,
    }


def _stream(features: Features, config: FinetuneConfig) -> BatchStream:
    data = config.data
    batching = Batching(data.batch_size, config.seed, data.max_batch_tokens)
    return BatchStream(features, batching, pad_id=0)


def _padded(stream: BatchStream, features: Features, number: int) -> int:
    """Return the tokens of a batch with padding."""
    numbers = stream.row_numbers(number)
    longest = int(features.lengths[numbers].max())
    return len(numbers) * padded_width(longest) * features.choices


def sum_of(works: Sequence[Work]) -> Work:
    """Return several trainings as one."""
    return Work(
        sum(work.steps for work in works),
        sum(work.tokens for work in works),
        sum((work.time for work in works), Seconds()),
    )
