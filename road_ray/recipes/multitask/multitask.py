"""``road multitask``: multi-task pre-training (ROaD). The gradient is averaged over randomly drawn
data sets, with one head per task.
"""

from __future__ import annotations

from road_ray.recipes.multitask.config import MultitaskConfig
from road_ray.recipes.run_directory.run import Run, load_finished_run
from road_ray.recipes.train.train import run_training
from road_ray.training.run_context import RunContext


def multitask(config: MultitaskConfig, context: RunContext | None = None) -> Run:
    """Train on the mixture, with distillation for data sets that have teachers. ``hf/`` holds the
    encoder with the head of the first data set, ``hf/heads/<task>`` the encoder with each head.
    """
    return load_finished_run(config) or run_training(config, context)
