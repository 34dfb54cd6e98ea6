"""``road finetune``: one model on one data set, from the checkpoint of any stage."""

from __future__ import annotations

from road_ray.recipes.finetuning.config import FinetuneConfig
from road_ray.recipes.run_directory.run import Run, load_finished_run
from road_ray.recipes.train.train import run_training
from road_ray.training.run_context import RunContext


def finetune(config: FinetuneConfig, context: RunContext | None = None) -> Run:
    """Train and evaluate; the model is in ``run.hf_dir``, the metrics are ``eval/<data
    set>/<metric>``.
    """
    return load_finished_run(config) or run_training(config, context)
