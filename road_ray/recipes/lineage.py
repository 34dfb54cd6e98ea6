"""What a model directory of ours says of itself in ``road_ray.json``."""

from __future__ import annotations

import json
from pathlib import Path

from road_ray.data.specs import Task


def trained_head(directory: Path, task: Task) -> Path | None:
    """Where a model directory keeps a head of this very task, if it was trained on it."""
    if (directory / "heads" / task.name / "config.json").is_file():
        return directory / "heads" / task.name
    lineage = directory / "road_ray.json"
    if not lineage.is_file():
        return None
    told = json.loads(lineage.read_text(encoding="utf-8"))
    return directory if told.get("task") == task.name else None


def stored_threshold(directory: Path) -> float | None:
    """The no-answer threshold that was tuned when the model was made, if it has one."""
    path = directory / "road_ray.json"
    if not path.is_file():
        return None
    value = json.loads(path.read_text(encoding="utf-8")).get("no_answer_threshold")
    return None if value is None else float(value)
