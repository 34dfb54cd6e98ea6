"""``road reproduce NAME --dry-run``: estimate the time of every arm and seed on this machine.

A few steps of each model size are run and timed. Numbers of steps are exact, and tokens but for the
padding, which is that of the first epoch. Every split is read and encoded once. Core time
is the CPU time of this process, which does not depend on other programs on the machine.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.config import override
from road_ray.data.batching import Batching, BatchStream
from road_ray.data.config import SourceConfig
from road_ray.data.features.examples_and_features import Example
from road_ray.data.load_split import Split, find_dataset, load_split, read_examples, root_of
from road_ray.data.shuffle_into_batches import padded_width
from road_ray.data.task_and_dataset import Dataset
from road_ray.data.tokenizer import load_tokenizer, pad_id_of
from road_ray.distributed.train.launch import launch_run
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
from road_ray.recipes.finetuning.finetune import main, prepare, training_split
from road_ray.recipes.finetuning.train_teachers import single_teachers
from road_ray.recipes.multitask.config import MultitaskConfig
from road_ray.recipes.multitask.multitask import multitask
from road_ray.recipes.pretraining.pretrain import pretrain
from road_ray.recipes.run_directory.run import open_run_directory
from road_ray.training.performance.compile import configure_networks
from road_ray.training.run_context import RunContext
from road_ray.training.worker import Worker

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_LEAST_STEPS, _STEPS = 2, 8  # timed, after one that warms up
_LONGEST_SECONDS = 1.5  # of CPU time, of the timed steps, which have fewer rows where they are slow
_LEAST_TOKENS = 500  # of a timed step, so that the update of the weights is a small part of it
_TRAIN_FACTOR = 3  # a step with its backward pass costs about three forward passes
_JUDGED = 24  # rows of the timed evaluation of each data set
_COUNTED = 200  # rows whose tokens give those of a dev split
_FEW_ROWS = 2


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
        changes["gpus_per_worker"] = 0.0
        # A mirror that holds steps of the estimate would be refused to the comparison itself.
        mirrors = ("training.mirror", "multitask.training.mirror", "continued.training.mirror")
        inner = override(config, changes | dict.fromkeys(mirrors))
        inner = inner.model_copy(update={"tracking": TrackingConfig()})
        return _Estimate(config, make_plan(inner), Path(place)).table()


class FinetuningTimes:
    """Times of fine-tunings of one model on this machine, each kind of them measured once."""

    def __init__(self, init: str, place: Path) -> None:
        self.init, self.place = init, place
        self.speeds: dict[str, Speed] = {}
        self.read_rows: dict[str, tuple[list[Example], Seconds]] = {}
        self.splits: dict[str, Split] = {}
        self.sizes: dict[str, tuple[int, int]] = {}

    def work(self, config: FinetuneConfig) -> Work:
        """Return the work of a fine-tuning, with its evaluation."""
        steps, tokens = self.steps_and_tokens(config)
        speed = self.speed(config)
        read = sum_of_times(
            self.read_seconds(name, split, config)
            for name, split in [
                (config.data.dataset, "train"),
                *((name, "dev") for name in judged_names(config)),
            ]
        )
        spent = speed.train * tokens + self.judged(config) + speed.once + read
        return Work(steps, tokens, spent)

    def steps_and_tokens(self, config: FinetuneConfig) -> tuple[int, int]:
        """Return the steps of a fine-tuning and its tokens, padding included."""
        data, training = config.data, config.training
        key = f"{config.seed} {data} {training.steps} {training.passes}"
        if key not in self.sizes:
            stream = self.stream(config)
            updates = stream.batches_per_epoch * data.epochs / training.passes
            steps = training.steps or max(1, math.ceil(updates))
            self.sizes[key] = steps, stream.totals(steps * training.passes).positions
        return self.sizes[key]

    def stream(self, config: FinetuneConfig) -> BatchStream:
        """Return the batches of a fine-tuning."""
        data = config.data
        features = training_split(data, self.tokenizer, self.load).features
        batching = Batching(data.batch_size, config.seed, data.max_batch_tokens)
        return BatchStream(features, batching, pad_id=0)

    def judged(self, config: FinetuneConfig) -> Seconds:
        """Return the time of evaluating one model on all dev splits of a fine-tuning, whose tokens
        are those of a sample for each of their rows.
        """
        tokens = 0.0
        for name in judged_names(config):
            sample = self.sample(name, config)
            count, most = len(self._rows(name, "dev", config)[0]), config.data.max_judged_rows
            rows = count if most is None else min(count, most)
            tokens += _sorted_tokens(sample) * rows / max(len(sample.examples), 1)
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
                self._time_run(override(timed, {"data.batch_size": _FEW_ROWS}), num_steps=1)
            self.speeds[key] = self._measured(timed)
        return self.speeds[key]

    # Rows, each read and encoded once.

    def load(self, name: str, split: str, source: SourceConfig, *args: Any, **kwargs: Any) -> Split:
        """Return a split as ``load_split`` does, the same one for equal settings."""
        unused = {"batch_size", "max_batch_tokens", "epochs", "dataset", "evaluate_on"}
        unused.add("max_judged_rows" if split == "train" else "max_rows")
        key = f"{name} {split} {source.model_dump(exclude=unused)}"
        if key not in self.splits:
            read = partial(self._read, name)
            self.splits[key] = load_split(name, split, source, *args, read=read, **kwargs)
        return self.splits[key]

    def sample(self, name: str, config: FinetuneConfig, rows: int = _COUNTED) -> Split:
        """Return some rows of a dev split."""
        most = min(rows, config.data.max_judged_rows or rows)
        source = config.data.model_copy(update={"max_judged_rows": most})
        return self.load(name, "dev", source, self.tokenizer)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The tokenizer of ``init``."""
        return load_tokenizer(model_directory(self.init))

    def read_seconds(self, name: str, split: str, config: FinetuneConfig) -> Seconds:
        """Return the time of reading a split from its files."""
        return self._rows(name, split, config)[1]

    def _rows(self, name: str, split: str, config: FinetuneConfig) -> tuple[list[Example], Seconds]:
        entry, _ = find_dataset(name, config.data)
        self._read(name, entry, split, root_of(name, config.data))
        return self.read_rows[f"{name} {split}"]

    def _read(self, name: str, entry: Dataset, split: str, root: Path | None) -> list[Example]:
        key = f"{name} {split}"
        if key not in self.read_rows:
            began = Seconds.now()
            rows = read_examples(entry, split, root)
            self.read_rows[key] = rows, Seconds.now() - began
        return self.read_rows[key][0]

    # One measurement.

    def _measured(self, config: FinetuneConfig) -> Speed:
        """Return the speed of a fine-tuning by a short one, whose steps and rows take about
        ``_LONGEST_SECONDS``.
        """
        began = Seconds.now()
        load_encoder(model_directory(config.init))
        load = Seconds.now() - began
        judge = self._judge_seconds(config)
        stream, passes = self.stream(config), config.training.passes
        sizes, batch = stream.totals(passes), config.data.batch_size
        row = _TRAIN_FACTOR * judge.cores * sizes.positions / sizes.rows
        steps = int(min(max(_LONGEST_SECONDS / (row * sizes.rows), _LEAST_STEPS), _STEPS))
        rows = int(_LONGEST_SECONDS / _LEAST_STEPS / row / passes)
        rows = min(max(rows, math.ceil(_LEAST_TOKENS * sizes.rows / sizes.positions)), batch)
        small = override(config, {"data.batch_size": rows})
        ends, total, dev_tokens = self._time_run(small, steps)
        batches = self.stream(small)
        first = batches.totals(passes).positions
        read = batches.totals((1 + steps) * passes).positions - first
        train = (ends[steps] - ends[0]) * (1 / read)
        return Speed(train, judge, total + (train * (first + read) + judge * dev_tokens) * -1, load)

    def _judge_seconds(self, config: FinetuneConfig) -> Seconds:
        """Return the time of evaluating one token, padding included."""
        splits = [self.sample(name, config, _FEW_ROWS) for name in judged_names(config)]
        splits += [self.sample(name, config, _JUDGED) for name in judged_names(config)]
        changes = {"run_dir": self.place / "timed", "data.max_judged_rows": _FEW_ROWS}
        prepared = prepare(override(config, changes), Worker.alone(), self.load)
        configure_networks(Supervised(prepared.model), False, False)
        tokens, spent, pad_id = 0, Seconds(), pad_id_of(prepared.tokenizer)
        for number, split in enumerate(splits):
            began = Seconds.now()
            evaluate_split(prepared.model, split, pad_id=pad_id, device=Worker.alone().device)
            if number >= len(splits) // 2:  # the first of each warm up
                tokens += evaluation_tokens(split.features)
                spent += Seconds.now() - began
        return spent * (1 / tokens)

    def _time_run(
        self, config: FinetuneConfig, num_steps: int
    ) -> tuple[list[Seconds], Seconds, int]:
        """Run ``num_steps`` steps of a fine-tuning, after one that warms up. Return the end of each
        step, the time of the run, and the tokens of its evaluation.
        """
        small = override(
            config,
            {
                "run_dir": self.place / "timed",
                "training.steps": 1 + num_steps,
                "training.log_every_steps": 1,
                "training.evaluate_every_steps": None,
                "training.keep_checkpoints_at_end": 1,  # says nothing; its directory is removed
                "data.max_judged_rows": min(_FEW_ROWS, config.data.max_judged_rows or _FEW_ROWS),
            },
        )
        ends: list[Seconds] = []
        context = RunContext(on_row=lambda *_: ends.append(Seconds.now()))
        self.stream(small)
        judged = [self.sample(name, small) for name in judged_names(small)]
        began = Seconds.now()
        with open_run_directory(small, keep_checkpoints=1) as directory:
            launch_run(main, small, self.load, context=context, directory=directory)
        total = Seconds.now() - began
        shutil.rmtree(small.run_dir)
        return ends, total, sum(evaluation_tokens(split.features) for split in judged)


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
            # As many batches as the store fills, in another order.
            speed, stream = self.times.speed(config), self.times.stream(config)
            tokens = stream.totals(stream.batches_per_epoch).positions
            spent = (speed.judge * tokens + speed.load) * config.distillation.teachers_per_row
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
        spent += load * (settings.teachers_per_row * folds)
        if (count := settings.generations) > 1:
            spent = (spent + self.times.judged(config)) * count
        return Work(count * work.steps, count * work.tokens, spent)

    def _ensemble_of(self, config: DistillConfig) -> TeachersConfig:
        return self.plan.ensembles_of(config)[0]


def _sorted_tokens(split: Split) -> int:
    """Return the tokens of rows as wide as those of similar length that share a batch with them in
    the whole split.
    """
    return sum(padded_width(int(length)) for length in split.features.lengths)


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


def sum_of(works: Sequence[Work]) -> Work:
    """Return several trainings as one."""
    return Work(
        sum(work.steps for work in works),
        sum(work.tokens for work in works),
        sum_of_times(work.time for work in works),
    )


def sum_of_times(times: Iterable[Seconds]) -> Seconds:
    """Return several times as one."""
    return sum(times, Seconds())
