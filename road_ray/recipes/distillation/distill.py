"""``road distill``: a student learns from labels and from the weighted logits of an ensemble,
computed during the training.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from road_ray.config import override
from road_ray.data.model_files.locate_model import locate_model
from road_ray.errors import ConfigError
from road_ray.recipes.distillation.born_again import born_again
from road_ray.recipes.distillation.config import DistillConfig
from road_ray.recipes.distillation.teacher_list import num_folds
from road_ray.recipes.run_directory.run import Run, load_finished_run
from road_ray.recipes.train.find_teachers import locate_teachers
from road_ray.recipes.train.train import run_training
from road_ray.training.run_context import RunContext

if TYPE_CHECKING:
    from road_ray.distributed.teachers.client import ActorEnsemble


def distill(
    config: DistillConfig,
    ensemble: ActorEnsemble | None = None,
    context: RunContext | None = None,
) -> Run:
    """Train and evaluate a student. The run starts and stops the teachers, unless ``ensemble`` is
    given: then its owner stops them, and ``distillation.teachers`` may be omitted, except for
    out-of-fold teachers, whose ``teachers.json`` records which rows each has not seen.
    """
    if ensemble is not None:
        config = _with_teachers(config, list(ensemble.directories))
    if done := load_finished_run(config):
        return done
    if config.distillation.generations > 1:
        return born_again(config, distill, ensemble, context)
    actors = None if ensemble is None else {config.data.dataset: ensemble}
    return run_training(config, context, actors)


def _with_teachers(config: DistillConfig, directories: list[str]) -> DistillConfig:
    """Return the configuration with the teachers of an ensemble. Raises ``ConfigError`` if it
    names out-of-fold teachers that differ from them.
    """
    if num_folds(config.distillation.teachers) == 1:
        return override(config, {"distillation.teachers": directories})
    ((places, _),) = locate_teachers(config).values()
    listed = [Path(place).resolve() for place in places]
    if listed != [Path(locate_model(directory)).resolve() for directory in directories]:
        raise ConfigError(
            f"distillation.teachers = {config.distillation.teachers[0]}: names {len(listed)} "
            f"teachers of folds, and the ensemble has {len(directories)} others or in another "
            "order\n"
            "  fix: start the ensemble with the directories of that list, fold after fold"
        )
    return config
