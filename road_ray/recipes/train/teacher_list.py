"""Lists of teachers: directories, or a ``teachers.json``, which may have folds; written by `road
teachers`, read by `road distill`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from road_ray.errors import ConfigError
from road_ray.recipes.run_directory.input_files import model_files


class _Entry(BaseModel):
    directory: str
    fold: int = 0


class _List(BaseModel):
    teachers: list[_Entry]
    num_folds: int = 1


def read_teacher_list(path: Path, key: str = "distillation.teachers") -> tuple[list[str], int]:
    """Return the directories in a ``teachers.json``, fold after fold, and the number of folds (1:
    none). A relative directory is below the file's own directory, or else below the working
    directory.

    Raises ``ConfigError`` for another file.
    """
    if not path.is_file():
        raise ConfigError(
            f"{key} = {path}: no such file\n"
            "  allowed: the teachers.json of a finished `road teachers`, or a list of model "
            "directories\n"
            "  fix: check the path; to resume `road teachers`, run the same command"
        )
    try:
        listed = _List.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{key} = {path}: no list of teachers: {' '.join(str(error).split())[:200]}\n"
            "  allowed: a teachers.json as `road teachers` writes it, or the directories themselves"
        ) from error
    teachers, num_folds = [], listed.num_folds
    for entry in sorted(listed.teachers, key=lambda entry: entry.fold):  # keeps the order in a fold
        near = path.parent / entry.directory
        teachers.append((entry.fold, str(near) if near.is_dir() else entry.directory))
    counts = [sum(fold == number for fold, _ in teachers) for number in range(num_folds)]
    if len(set(counts)) > 1 or sum(counts) != len(teachers):
        raise ConfigError(
            f"{key} = {path}: {counts} teachers of {num_folds} folds, "
            f"{len(teachers)} in all\n  allowed: equally many of each fold"
        )
    return [directory for _, directory in teachers], num_folds


def resolve_teachers(
    teachers: Sequence[str], key: str = "distillation.teachers"
) -> tuple[list[str], int]:
    """Return the teachers, named directly or by a ``teachers.json``, and the number of their folds:
    1 if they have seen all of the data.
    """
    if len(teachers) == 1 and teachers[0].endswith(".json"):
        return read_teacher_list(Path(teachers[0]).expanduser(), key)
    return list(teachers), 1


def num_folds(teachers: Sequence[str]) -> int:
    """Return the number of folds of the named teachers; 1 if they are not of folds."""
    return resolve_teachers(teachers)[1]


def teacher_files(teachers: Sequence[str]) -> list[Path]:
    """Return the local files that determine the answers of the teachers."""
    return [path for name in resolve_teachers(teachers)[0] for path in model_files(name)]
