"""Demo of ROaD at miniature scale: pre-training, multi-task training, three teachers, and students
with few labels, with and without distillation, which are the arms of an experiment.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from road_ray.data.config import CorpusConfig
from road_ray.experiment.config import ArmConfig
from road_ray.experiment.data_files import write_unlabelled
from road_ray.experiment.expand import Expanded, Job
from road_ray.experiment.run import run_experiment
from road_ray.models.config import EncoderConfig
from road_ray.recipes.config import DemoConfig
from road_ray.recipes.distillation.config import (
    DistillationConfig,
    DistillConfig,
    DistillDataConfig,
    WeightingConfig,
)
from road_ray.recipes.finetuning.config import (
    FinetuneConfig,
    FinetuneDataConfig,
    StudentConfig,
    TeachersConfig,
)
from road_ray.recipes.finetuning.train_teachers import single_teachers
from road_ray.recipes.multitask.config import MixingConfig, MultitaskConfig, MultitaskDataConfig
from road_ray.recipes.multitask.multitask import multitask
from road_ray.recipes.pretraining.config import GeneratorConfig, PretrainConfig
from road_ray.recipes.pretraining.pretrain import pretrain
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.training.config import OptimizerConfig, TrainingConfig
from road_ray.training.run_context import RunContext

_log = logging.getLogger(__name__)

TASK = "sst2"
# Kinds of students by the part of their directories' names: ``student-none-100``. The rule of
# teachers is the name of a kind that has them.
ARMS = {
    "none": ArmConfig(about="no KD"),
    "mean": ArmConfig(about="mean KD", teachers="teachers"),
    "correctness": ArmConfig(about="Weighted KD", teachers="teachers"),
    "all": ArmConfig(about="no KD, all labels"),
}
_ABOUT = (
    "what do teachers gain for a small student that has few labels and many rows without, and does "
    "it matter how they are weighted? The teachers have all labels"
)
_STEPS = {"pretrain": 600, "multitask": 300, "teacher": 300, "student": 400}
NUM_LABELS = 300  # of the students; they have the other training rows without labels
_FIRST_SEED = 100  # of the students


def demo(config: DemoConfig, context: RunContext | None = None) -> Run:
    """Run the demo; ``table.json`` and ``report.html`` hold the results, and
    ``teachers/teachers.json`` lists the teachers for another `distill`.
    """
    if done := load_finished_run(config):
        return done
    with open_run_directory(config) as directory:
        _log.info("pre-training of an encoder on the embedded corpus")
        pretrain(pretrain_config(config), context)
        _log.info("multi-task training on four data sets")
        multitask(multitask_config(config), context)
        _log.info("teachers with all labels of %s, and students with %d", TASK, NUM_LABELS)
        return run_experiment(directory, experiment_of(config), config, context)


def experiment_of(config: DemoConfig) -> Expanded:
    """Return the teachers and students, and write the rows without labels of the students."""
    ensemble = teachers_config(config)
    jobs = [
        Job(f"teacher-{number}", "finetune", single)
        for number, single in enumerate(single_teachers(ensemble))
    ]
    jobs.append(Job("teachers", "teachers", ensemble, after=tuple(job.name for job in jobs)))
    seeds = range(_FIRST_SEED, _FIRST_SEED + config.num_seeds)
    data = finetune_config(config, "none", _FIRST_SEED).data
    write_unlabelled(unlabelled_rows(config), TASK, data, None)
    for kind, arm in ARMS.items():
        for seed in seeds:
            taught = bool(arm.teachers)
            student = (distill_config if taught else finetune_config)(config, kind, seed)
            verb, after = ("distill", ("teachers",)) if taught else ("finetune", ())
            jobs.append(Job(f"{kind}-{seed}", verb, student, after, kind, scored=True))
    return Expanded(
        name="demo",
        about=_ABOUT,
        source="nothing comparable with tiny models on a synthetic data set",
        arms=ARMS,
        seeds=seeds,
        jobs=tuple(jobs),
        data=data,
    )


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


def teachers_config(config: DemoConfig) -> TeachersConfig:
    """Return the teachers: all layers of the multi-task encoder, trained on all labels."""
    plain: dict[str, Any] = dict(finetune_config(config, "all", config.seed)) | {
        "run_dir": config.run_dir / "teachers",
        "student": StudentConfig(),
        "training": TrainingConfig(steps=_STEPS["teacher"], save_every_steps=100_000),
    }
    return TeachersConfig(**plain, num_teachers=config.num_teachers)


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


def distill_config(config: DemoConfig, rule: str, seed: int) -> DistillConfig:
    """Return the same student with teachers, weighted by ``rule``, and rows without labels."""
    plain = dict(finetune_config(config, rule, seed))
    rows = (str(unlabelled_rows(config)),)
    data = DistillDataConfig(**dict(plain.pop("data")), unlabelled=rows)
    teachers = (str(config.run_dir / "teachers" / "teachers.json"),)
    return DistillConfig(
        **plain,
        data=data,
        distillation=DistillationConfig(
            teachers=teachers, num_teachers=config.num_teachers, host="process", answers="live"
        ),
        weighting=WeightingConfig(rule=rule),
    )
