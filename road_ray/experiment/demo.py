"""``road demo``: ROaD at miniature scale. A pre-training, a multi-task training, and an experiment
with three teachers and students with few labels, with and without distillation; ``demo.yaml`` has
their keys.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from road_ray.config import load, read_yaml
from road_ray.data.config import MINIATURE
from road_ray.experiment.config import ReproduceConfig
from road_ray.experiment.expand import Experiment
from road_ray.experiment.run import run_experiment
from road_ray.recipes.config import DemoConfig
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.pretrain import pretrain
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.recipes.train.config import MultitaskConfig
from road_ray.recipes.train.train import multitask
from road_ray.training.run_context import RunContext

_log = logging.getLogger(__name__)
ROOT = MINIATURE  # the sizes are made for it
KEYS = read_yaml(Path(__file__).with_name("demo.yaml")).values


def demo(config: DemoConfig, context: RunContext | None = None) -> Run:
    """Run the demo; ``table.json`` and ``report.html`` hold the results."""
    if done := load_finished_run(config):
        return done
    with open_run_directory(config) as directory:
        _log.info("pre-training of an encoder on the embedded corpus")
        pretrain(stage(PretrainConfig, "pretrain", config), context)
        _log.info("multi-task training on four data sets")
        multitask(stage(MultitaskConfig, "multitask", config), context)
        _log.info("teachers with all labels, and students with few")
        experiment = Experiment(stage(ReproduceConfig, "students", config))
        return run_experiment(directory, experiment, config, context, "demo")


def stage(kind: type[Any], name: str, config: DemoConfig) -> Any:
    """Return the configuration of a stage: ``pretrain``, ``multitask`` or ``students``."""
    place = config.run_dir
    own: dict[str, Any] = {"data.root": ROOT, "tracking": config.tracking}
    if name != "students":
        own |= {"run_dir": place / name, "seed": config.seed, "console": config.console}
    match name:
        case "pretrain":
            own["data.shards"] = place / "corpus"
        case "multitask":
            own["init"] = place / "pretrain"
        case "students":
            own |= {"run_dir": place, "init": place / "multitask", "comparison": "own"}
            own["num_seeds"] = config.num_seeds
            own["distillation.num_teachers"] = config.num_teachers
    return load(kind, base=KEYS[name], overrides=own)
