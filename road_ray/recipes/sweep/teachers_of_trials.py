"""Teachers that all trials of a sweep share: its driver has them answer the training rows once, or
starts them in actors and hands them to the trials.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from road_ray.config import override
from road_ray.recipes.distillation.config import DistillConfig
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.sweep.stages import base_config
from road_ray.recipes.train.find_teachers import find_teachers
from road_ray.recipes.train.train import label_training_rows

if TYPE_CHECKING:
    from road_ray.distributed.teachers.client import ActorEnsemble

# Keys that decide the teachers, their answers and the rows that they answer.
_SETTINGS = ("teachers", "num_teachers", "precision", "label_map", "torch_compile", "host")
_DECIDING = ("data.", "init", *(f"distillation.{key}" for key in (*_SETTINGS, "answers", "store")))


def taught_alike(config: SweepConfig) -> DistillConfig | None:
    """Return the configuration of the first stage if all trials have the same teachers and rows
    there, else None.
    """
    base = base_config(config.stages[0])
    if not isinstance(base, DistillConfig) or any(
        key.startswith(_DECIDING) for key in config.space
    ):
        return None
    settings = base.distillation
    if settings.answers != "live":
        return override(base, {"distillation.store": settings.store or config.directory / "store"})
    return base if settings.host == "actors" else None


@contextmanager
def teachers_of_trials(config: SweepConfig) -> Iterator[ActorEnsemble | None]:
    """Have the teachers answer the rows of all trials, or yield their actors in the connected
    cluster until this is left. None: the trials need no actors of the driver.
    """
    base = taught_alike(config)
    if base is None:
        yield None
    elif base.distillation.answers == "live":
        (teachers,) = find_teachers(base).values()
        with teachers.start_pool(base.workers) as ensemble:
            yield ensemble
    else:
        label_training_rows(base)
        yield None
