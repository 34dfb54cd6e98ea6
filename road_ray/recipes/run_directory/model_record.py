"""Record of a model directory: ``road_ray.json``, and a card for people."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from road_ray.data.model_files import MODEL_RECORD, model_hashes
from road_ray.data.schema import Task
from road_ray.errors import CheckpointError
from road_ray.reporting.card import write_card
from road_ray.system.json_file import read_json, write_json_atomic

_REMEDY = "restore it, or repeat the command that trained the model, which writes it again"


@contextmanager
def atomic_directory(directory: Path) -> Iterator[Path]:
    """Yield an empty directory beside ``directory`` that takes its place on leaving, by one rename,
    and is removed on an error: nobody reads half a model, and a kill leaves what was there before
    or none.
    """
    staged, old = (directory.with_name(f".{directory.name}.{what}") for what in ("new", "old"))
    for left in (staged, old):
        shutil.rmtree(left, ignore_errors=True)
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


def write_model_record(directory: Path, **told: object) -> None:
    """Write what is told of the model in ``directory``, whose other files are there already."""
    write_json_atomic(directory / MODEL_RECORD, told | {"files": model_hashes(directory)})
    write_card(directory, told)


def trained_head(directory: Path, task: Task) -> Path | None:
    """Return the directory of a model's head for this very task, if it was trained on it."""
    if (directory / "heads" / task.name / "config.json").is_file():
        return directory / "heads" / task.name
    return directory if _told(directory).get("task") == task.name else None


def head_for(directory: Path, task: Task, dataset: str) -> Path | None:
    """The same, or its head for the data set: a mixture with ``mixing.heads=dataset`` has those."""
    of_its_own = replace(task, name=dataset)
    return trained_head(directory, task) or trained_head(directory, of_its_own)


def other_task(directory: Path, task: Task, dataset: str) -> str | None:
    """The task that a model was trained on, where it is not this one: then its head is of no use
    here.
    """
    told = _told(directory).get("task")
    return None if told is None or head_for(directory, task, dataset) else str(told)


def stored_threshold(directory: Path) -> float | None:
    """The no-answer threshold that was tuned when the model was made, if it has one."""
    return _number(directory, "no_answer_threshold")


def trained_length(directory: Path) -> int | None:
    """The ``max_length_tokens`` of its training, None where the default was used or none is told.

    A threshold means little for windows of another length.
    """
    value = _number(directory, "max_length_tokens")
    return None if value is None else int(value)


def _told(directory: Path) -> dict[str, Any]:
    path = directory / MODEL_RECORD
    return read_json(path, fix=_REMEDY) if path.is_file() else {}


def _number(directory: Path, name: str) -> float | None:
    value = _told(directory).get(name)
    if type(value) not in (int, float, type(None)):
        raise CheckpointError(
            f"{directory / MODEL_RECORD}: {name} = {value!r} is not a number\n  fix: {_REMEDY}"
        )
    return None if value is None else float(value)
