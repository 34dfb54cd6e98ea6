"""Demo of ROaD at miniature scale: pre-training, multi-task training, three teachers, and students
with few labels, with and without distillation.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from road_ray.data.config import CorpusConfig
from road_ray.distributed.connection import connected
from road_ray.distributed.parallel_runs import run_parallel
from road_ray.evaluation.seed_statistics import summary
from road_ray.experiment.data_files import write_unlabelled
from road_ray.experiment.table import experiment_metrics
from road_ray.models.config import EncoderConfig
from road_ray.recipes.config import DemoConfig
from road_ray.recipes.distillation.config import (
    DistillationConfig,
    DistillConfig,
    DistillDataConfig,
    WeightingConfig,
)
from road_ray.recipes.distillation.distill import distill
from road_ray.recipes.distillation.teacher_list import teachers_json
from road_ray.recipes.finetuning.config import (
    FinetuneConfig,
    FinetuneDataConfig,
    StudentConfig,
)
from road_ray.recipes.finetuning.finetune import finetune
from road_ray.recipes.multitask.config import MixingConfig, MultitaskConfig, MultitaskDataConfig
from road_ray.recipes.multitask.multitask import multitask
from road_ray.recipes.pretraining.config import GeneratorConfig, PretrainConfig
from road_ray.recipes.pretraining.pretrain import pretrain
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.reporting.records.comparison_table import figure_over_seeds, paired_tests
from road_ray.system.json_file import write_json_atomic
from road_ray.training.config import OptimizerConfig, TrainingConfig
from road_ray.training.run_context import RunContext

_log = logging.getLogger(__name__)

TASK, _METRIC = "sst2", "accuracy"
# Kinds of students, each with the part of its directories' names: ``student-none-100``.
STUDENTS = {
    "no KD": "none",
    "mean KD": "mean",
    "Weighted KD": "correctness",
    "no KD, all labels": "all",
}
_ABOUT = (
    "what do teachers gain for a small student that has few labels and many rows without, and does "
    "it matter how they are weighted? The teachers have all labels"
)
_PLAIN = ("none", "all")  # kinds of students without teachers
_STEPS = {"pretrain": 600, "multitask": 300, "teacher": 300, "student": 400}
NUM_LABELS = 300  # of the students; they have the other training rows without labels
_MOST_SECONDS = 3600.0  # of the runs of one stage
NUM_STAGES = 3 + len(STUDENTS)


def demo(config: DemoConfig, context: RunContext | None = None) -> Run:
    """Run the demo; ``table.json`` and ``report.html`` hold the results, and
    ``teachers/teachers.json`` lists the teachers for another `distill`.
    """
    return load_finished_run(config) or _run(config, context)


def _run(config: DemoConfig, context: RunContext | None) -> Run:
    with open_run_directory(config) as directory:
        with _stage(1, "pre-training of an encoder on the embedded corpus"):
            pretrain(pretrain_config(config), context)
        with _stage(2, "multi-task training on four data sets"):
            multitask(multitask_config(config), context)
        with connected(config.address, num_cpus=2 * config.max_concurrent):
            with _stage(3, f"{config.num_teachers} teachers with all labels of {TASK}"):
                teachers = _teachers(config, context)
            students = _students(config, teachers, context)
        results = table(teachers, students)
        metrics = experiment_metrics(results)
        write_json_atomic(directory / "table.json", results)
        write_json_atomic(directory / "metrics.json", metrics)
    return Run(directory, metrics)


@contextmanager
def _stage(number: int, title: str) -> Iterator[None]:
    """Log the start of a stage and the seconds that it took."""
    _log.info("stage %d of %d: %s", number, NUM_STAGES, title)
    began = time.monotonic()
    yield
    _log.info("stage %d of %d took %.0f s", number, NUM_STAGES, time.monotonic() - began)


def _teachers(config: DemoConfig, context: RunContext | None) -> list[Run]:
    configs = [teacher_config(config, number) for number in range(config.num_teachers)]
    runs = run_parallel(finetune, configs, timeout_seconds=_MOST_SECONDS, context=context)
    place = config.run_dir / "teachers"
    write_json_atomic(place / "teachers.json", teachers_json(place, configs, runs))
    return runs


def _students(
    config: DemoConfig, teachers: Sequence[Run], context: RunContext | None
) -> dict[str, list[Run]]:
    from road_ray.data import catalog
    from road_ray.distributed.teachers.pool import start_teachers

    directories = [str(run.hf_dir) for run in teachers]
    path = unlabelled_rows(config)
    write_unlabelled(path, TASK, finetune_config(config, "none", 0).data, None)
    seeds = range(100, 100 + config.num_seeds)
    with start_teachers(directories, catalog.task(TASK)) as ensemble:
        students = {}
        for number, (title, kind) in enumerate(STUDENTS.items(), start=4):
            with _stage(number, f"{config.num_seeds} students: {title}"):
                if kind in _PLAIN:
                    plain = [finetune_config(config, kind, seed) for seed in seeds]
                    runs = run_parallel(
                        finetune, plain, timeout_seconds=_MOST_SECONDS, context=context
                    )
                else:
                    pupils = [distill_config(config, kind, seed, directories) for seed in seeds]
                    runs = run_parallel(
                        distill, pupils, ensemble, timeout_seconds=_MOST_SECONDS, context=context
                    )
                students[title] = runs
    return students


def table(teachers: Sequence[Run], students: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """Return the content of ``table.json``: each kind of student as an arm, tested against the
    first, and the teachers.
    """
    name = f"{TASK}/{_METRIC}"
    scores = {
        STUDENTS[title]: {
            seed: run.metrics[f"eval/{name}"] for seed, run in enumerate(runs, start=100)
        }
        for title, runs in students.items()
    }
    first, *others = scores
    tests = paired_tests(scores, {other: [first] for other in others})
    single = summary([run.metrics[f"eval/{name}"] for run in teachers])
    figure = {"teachers": single.mean, "deviation": single.deviation}
    return {
        "comparison": "demo",
        "about": _ABOUT,
        "source": "nothing comparable with tiny models on a synthetic data set",
        "data_sets": {TASK: [_METRIC]},
        "arms": [
            {
                "name": STUDENTS[title],
                "about": title,
                "seeds": [*scores[STUDENTS[title]]],
                "figures": {name: figure_over_seeds(scores[STUDENTS[title]])},
            }
            for title in students
        ],
        "ensembles": [{"name": "teachers", "teachers": len(teachers), "figures": {name: figure}}],
        "tests": [{"data_set": TASK, "metric": _METRIC} | test for test in tests],
    }


def pretrain_config(config: DemoConfig) -> PretrainConfig:
    """Return a two-layer ELECTRA on the embedded corpus, with rows of 32 tokens."""
    return PretrainConfig(
        run_dir=config.run_dir / "pretrain",
        seed=config.seed,
        console=config.console,
        tracking=config.tracking,
        start="corpus",
        data=CorpusConfig(
            root=config.root,
            vocab_size=2000,
            max_length_tokens=32,
            batch_size=32,
            shards=str(config.run_dir / "corpus"),
        ),
        encoder=EncoderConfig(
            layers=2,
            hidden_size=128,
            heads=4,
            intermediate_size=512,
            embedding_size=128,
            max_length_tokens=256,
            dropout=0.0,
            initializer_std=0.06,
        ),
        generator=GeneratorConfig(scale=0.5),
        optimizer=OptimizerConfig(
            peak_lr=2e-3, warmup_steps=100, betas=(0.9, 0.98), bias_correction=True
        ),
        training=TrainingConfig(steps=_STEPS["pretrain"], save_every_steps=100_000),
    )


def multitask_config(config: DemoConfig) -> MultitaskConfig:
    """Return the mixture of four data sets with four passes a step; two of them are of questions
    and share a head.
    """
    return MultitaskConfig(
        run_dir=config.run_dir / "multitask",
        seed=config.seed,
        console=config.console,
        tracking=config.tracking,
        init=str(config.run_dir / "pretrain"),
        data=MultitaskDataConfig(
            root=config.root,
            datasets=("squad_v2", "squad_v1", "mnli", "qqp"),
            batch_size=16,
            max_length_tokens=192,
        ),
        mixing=MixingConfig(passes=4),
        optimizer=OptimizerConfig(peak_lr=1.5e-3, warmup_steps=30, bias_correction=True),
        training=TrainingConfig(steps=_STEPS["multitask"], save_every_steps=100_000),
    )


def teacher_config(config: DemoConfig, number: int) -> FinetuneConfig:
    """Return a teacher: all layers of the multi-task encoder, trained on all labels."""
    plain = finetune_config(config, "all", number)
    return plain.model_copy(
        update={
            "run_dir": config.run_dir / f"teacher-{number}",
            "student": StudentConfig(),
            "training": TrainingConfig(steps=_STEPS["teacher"], save_every_steps=100_000),
        }
    )


def finetune_config(config: DemoConfig, kind: str, seed: int) -> FinetuneConfig:
    """Return a student without teachers: one layer of the multi-task encoder. It has all labels if
    ``kind`` is ``all``, else ``NUM_LABELS``.
    """
    return FinetuneConfig(
        run_dir=config.run_dir / f"student-{kind}-{seed}",
        seed=seed,
        console="quiet",
        tracking=config.tracking,
        init=str(config.run_dir / "multitask"),
        student=StudentConfig(layers=1),
        data=FinetuneDataConfig(
            root=config.root,
            dataset=TASK,
            max_rows=None if kind == "all" else NUM_LABELS,
            max_length_tokens=64,
            batch_size=16,
        ),
        optimizer=OptimizerConfig(peak_lr=1e-3, weight_decay=0.0, bias_correction=True),
        training=TrainingConfig(steps=_STEPS["student"], save_every_steps=100_000),
    )


def unlabelled_rows(config: DemoConfig) -> Path:
    """Return the file of the students' rows without labels."""
    return config.run_dir / "rows" / "unlabelled.jsonl"


def distill_config(
    config: DemoConfig, rule: str, seed: int, directories: Sequence[str]
) -> DistillConfig:
    """Return the same student with teachers, weighted by ``rule``, and rows without labels."""
    plain = finetune_config(config, rule, seed)
    shared = {name: getattr(plain, name) for name in FinetuneConfig.model_fields if name != "data"}
    rows = (str(unlabelled_rows(config)),)
    return DistillConfig(
        **shared,
        data=DistillDataConfig(**plain.data.model_dump(), unlabelled=rows),
        distillation=DistillationConfig(teachers=tuple(directories), num_teachers=len(directories)),
        weighting=WeightingConfig(rule=rule),
    )
