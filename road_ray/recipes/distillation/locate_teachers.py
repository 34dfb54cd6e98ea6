"""Model directories of the teachers that a configuration names, checked."""

from __future__ import annotations

from collections.abc import Sequence

from road_ray.data.model_files.locate_model import locate_model
from road_ray.errors import CheckpointError, ConfigError
from road_ray.models.encoder import model_directory
from road_ray.recipes.distillation.config import DistillationConfig
from road_ray.recipes.distillation.teacher_list import resolve_teachers
from road_ray.recipes.run_directory.manifest import require_whole_weights


def teacher_directories(settings: DistillationConfig) -> list[str]:
    """Return the model directories of the teachers, fold after fold if there are folds. Raises
    ``ConfigError`` unless there are ``num_teachers`` of them (of each fold), if that is given.
    """
    return locate_teachers(settings.teachers, settings.num_teachers)


def locate_teachers(
    teachers: Sequence[str], count: int | None, key: str = "distillation.teachers"
) -> list[str]:
    """Return the model directories of the ``teachers`` of ``key``. Raises ``ConfigError`` unless
    there are ``count`` of them (of each fold); None: at least one.
    """
    names, folds = resolve_teachers(teachers, key)
    if not names:
        raise ConfigError(
            f"{key} names no teacher\n"
            f"  fix: {key}=[MODEL,MODEL,...], or the teachers.json that `road teachers` writes\n"
            "  nothing was started"
        )
    if count is not None and len(names) != count * folds:
        raise ConfigError(
            f"{key} lists {len(names)} teacher{'s' * (len(names) != 1)}: {', '.join(names)}\n"
            f"  expected: {count}{f' for each of {folds} folds' if folds > 1 else ''} "
            "(distillation.num_teachers)\n"
            f"  fix: {key}=[MODEL,MODEL,...], or the teachers.json that `road teachers` writes; or "
            "change distillation.num_teachers\n"
            "  nothing was started"
        )
    for name in names:
        require_whole_weights(name)
    try:
        return [str(locate_model(model_directory(name))) for name in names]
    except CheckpointError as error:
        message = str(error).removeprefix("init = ").removeprefix(f"{key}: ")
        raise CheckpointError(f"{key}: {message}") from error
