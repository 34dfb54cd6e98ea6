"""Teachers: N seeds of one fine-tuning, side by side, listed in ``teachers.json``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from road_ray.distributed.parallel import run_all
from road_ray.evaluation.metrics import summary
from road_ray.recipes.distillation.ensemble_eval import evaluate_ensemble
from road_ray.recipes.finetuning.config import FinetuneConfig, TeachersConfig
from road_ray.recipes.finetuning.finetune import finetune
from road_ray.recipes.run_directory.resume_identity import mirrored_below
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.recipes.validation import require_plain_head
from road_ray.training.context import RunContext
from road_ray.training.monitoring.journal import write_json_atomic


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
        return finetune(single[0], context)  # the others are alike
    with open_run_directory(config) as directory:
        runs = run_all(finetune, single, config, context)
        write_json_atomic(directory / "teachers.json", listing(directory, single, runs))
        figures: dict[str, float] = {}
        for name in _of_all(runs):
            spread = summary([run.metrics[name] for run in runs])
            figures[name] = spread.mean
            if spread.deviation is not None:
                figures[f"{name}_deviation"] = spread.deviation
        if config.judge_ensemble:
            found = [run.hf_dir for run in runs]
            figures |= evaluate_ensemble(
                found,
                config.data,
                config.data.evaluate_on or (config.data.dataset,),
                predictions=directory / "predictions" / "ensemble",
                tune_on=config.data.dataset,
            )
        write_json_atomic(directory / "metrics.json", figures)
    return Run(directory, figures)


def single_teachers(config: TeachersConfig) -> list[FinetuneConfig]:
    """Return the fine-tuning of each teacher, fold after fold."""
    return [
        _single(config, number, fold)
        for fold in range(config.num_folds)
        for number in range(config.num_teachers)
    ]


def _of_all(runs: Sequence[Run]) -> list[str]:
    """The figures that every run has: one that earlier versions finished may lack some."""
    return [name for name in runs[0].metrics if all(name in run.metrics for run in runs)]


def listing(place: Path, single: Sequence[FinetuneConfig], runs: Sequence[Run]) -> dict[str, Any]:
    """Return the list that ``distill`` reads in ``place``: of each teacher the directory (relative
    to the list's own, so that all may move), seed and figures, and the fold it did not see.
    """
    listed: list[dict[str, Any]] = [
        {
            "directory": os.path.relpath(run.hf_dir, place),
            "seed": one.seed,
            "metrics": dict(run.metrics),
        }
        for run, one in zip(runs, single, strict=True)
    ]
    num_folds = single[0].data.num_folds
    if num_folds == 1:
        return {"teachers": listed}
    for told, one in zip(listed, single, strict=True):
        told["fold"] = one.data.held_out_fold
    return {"num_folds": num_folds, "teachers": listed}


def _single(config: TeachersConfig, number: int, fold: int) -> FinetuneConfig:
    shared = {name: getattr(config, name) for name in FinetuneConfig.model_fields}
    place = config.run_dir
    if config.num_folds > 1:
        place = place / f"fold-{fold}"
        folds = {"num_folds": config.num_folds, "held_out_fold": fold}
        shared["data"] = config.data.model_copy(update=folds)
    place = place / f"teacher-{number}"
    shared |= {
        "run_dir": place,
        "training": mirrored_below(config.training, place.relative_to(config.run_dir)),
        "seed": config.seed + number,
        "workers": 0,
    }
    return FinetuneConfig(**shared)
