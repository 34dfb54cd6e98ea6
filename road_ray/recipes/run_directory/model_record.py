"""Record of a model directory: ``road_ray.json``, and a card for people."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from road_ray.data.model_files.locate_model import MODEL_RECORD, model_hashes
from road_ray.data.row_limits import LIMITS
from road_ray.data.task_and_dataset import Task
from road_ray.errors import CheckpointError
from road_ray.reporting.model_card import write_card
from road_ray.system.json_file import read_json, write_json_atomic

_REMEDY = "restore it, or repeat the command that trained the model, which writes it again"


@contextmanager
def atomic_directory(directory: Path) -> Iterator[Path]:
    """Yield an empty directory beside ``directory`` that replaces it on exit, by one rename, and is
    removed on an error: no reader sees half a model, and a kill leaves the earlier model or none.
    """
    staged, old = (directory.with_name(f".{directory.name}.{part}") for part in ("new", "old"))
    for leftover in (staged, old):
        shutil.rmtree(leftover, ignore_errors=True)
    staged.mkdir(parents=True)
    try:
        yield staged
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    if directory.exists():
        directory.rename(old)
    staged.rename(directory)
    shutil.rmtree(old, ignore_errors=True)


def write_model_record(directory: Path, **fields: object) -> None:
    """Write record and card of the model in ``directory``, after its other files."""
    write_json_atomic(directory / MODEL_RECORD, fields | {"files": model_hashes(directory)})
    write_card(directory, fields)


def trained_head(directory: Path, task: Task) -> Path | None:
    """Return the directory of a model's head for ``task``, or None if it was not trained on it."""
    if (directory / "heads" / task.name / "config.json").is_file():
        return directory / "heads" / task.name
    return directory if _record(directory).get("task") == task.name else None


def head_for(directory: Path, task: Task, dataset: str) -> Path | None:
    """Return the directory of a model's head for ``task``, or for ``dataset``, which a mixture with
    ``mixing.heads=dataset`` has; None if there is neither.
    """
    dataset_task = replace(task, name=dataset)
    return trained_head(directory, task) or trained_head(directory, dataset_task)


def stored_threshold(directory: Path) -> float | None:
    """Return the stored no-answer threshold of a model, or None."""
    return _number(directory, "no_answer_threshold")


def trained_limits(directory: Path) -> dict[str, int]:
    """Return the limits of the rows that a model was trained on, as far as they are recorded."""
    numbers = {name: _number(directory, name) for name in LIMITS}
    return {name: int(number) for name, number in numbers.items() if number is not None}


def _record(directory: Path) -> dict[str, Any]:
    path = directory / MODEL_RECORD
    return read_json(path, fix=_REMEDY) if path.is_file() else {}


def _number(directory: Path, name: str) -> float | None:
    value = _record(directory).get(name)
    if type(value) not in (int, float, type(None)):
        raise CheckpointError(
            f"{directory / MODEL_RECORD}: {name} = {value!r} is not a number\n  fix: {_REMEDY}"
        )
    return None if value is None else float(value)
