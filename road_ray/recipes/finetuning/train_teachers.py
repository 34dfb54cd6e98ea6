"""Ensemble of teachers: N seeds of one fine-tuning, in parallel, listed in ``teachers.json``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from road_ray.distributed.parallel_runs import run_all
from road_ray.evaluation.seed_statistics import means
from road_ray.recipes.distillation.ensemble_eval import evaluate_ensemble
from road_ray.recipes.distillation.teacher_list import teachers_json
from road_ray.recipes.finetuning.config import FinetuneConfig, FinetuneDataConfig, TeachersConfig
from road_ray.recipes.preflight_checks import require_plain_head
from road_ray.recipes.run_directory.recorded_config import mirrored_below
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.recipes.train.train import finetune
from road_ray.system.json_file import write_json_atomic
from road_ray.training.run_context import RunContext


def teachers(config: TeachersConfig, context: RunContext | None = None) -> Run:
    """Train all teachers; ``teachers.json`` lists directory, seed and figures of each.

    Metrics are means over the teachers, their ``_deviation``, and those of the ensemble:
    ``eval/<data set>/ensemble_<metric>``.
    """
    return load_finished_run(config) or _run(config, context)


def _run(config: TeachersConfig, context: RunContext | None) -> Run:
    require_plain_head(config.data)
    single = single_teachers(config)
    if context is not None and context.plan_only:
        return finetune(single[0], context)  # all cost the same
    with open_run_directory(config) as directory:
        runs = run_all(finetune, single, config, context)
        write_json_atomic(directory / "teachers.json", teachers_json(directory, single, runs))
        # A run that an earlier version finished may lack a figure of the others.
        figures = means([run.metrics for run in runs])
        figures |= ensemble_figures(directory, runs, config.data)
        write_json_atomic(directory / "metrics.json", figures)
    return Run(directory, figures)


def ensemble_figures(
    directory: Path, runs: Sequence[Run], data: FinetuneDataConfig
) -> dict[str, float]:
    """Return the figures of the models' mean, whose predictions are written to ``directory``."""
    return evaluate_ensemble(
        [run.hf_dir for run in runs],
        data,
        data.evaluate_on or (data.dataset,),
        predictions=directory / "predictions" / "ensemble",
        tune_on=data.dataset,
    )


def single_teachers(config: TeachersConfig) -> list[FinetuneConfig]:
    """Return the fine-tuning of each teacher, fold after fold."""
    return [
        _single(config, number, fold)
        for fold in range(config.num_folds)
        for number in range(config.num_teachers)
    ]


def _single(config: TeachersConfig, number: int, fold: int) -> FinetuneConfig:
    shared = {name: getattr(config, name) for name in FinetuneConfig.model_fields}
    place = config.run_dir
    if config.num_folds > 1:
        place = place / f"fold-{fold}"
        held_out = {"held_out_fold": (fold, config.num_folds)}
        shared["data"] = config.data.model_copy(update=held_out)
    place = place / f"teacher-{number}"
    shared |= {
        "run_dir": place,
        "training": mirrored_below(config.training, place.relative_to(config.run_dir)),
        "seed": config.seed + number,
        "workers": 0,
        "gpus_per_worker": 0.0,  # those of the Ray task
        "address": None,
    }
    return FinetuneConfig(**shared)
