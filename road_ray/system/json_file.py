"""Small JSON records of road_ray: atomic writes, and reads with a typed error for damaged files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from road_ray.errors import CheckpointError, ResourceError, RoadError
from road_ray.system.operating_system import sync
from road_ray.system.staging import staged_beside


def read_json(
    path: Path,
    *,
    error: type[RoadError] = CheckpointError,
    fix: str = "restore the file, or make it again with the command that wrote it",
) -> dict[str, Any]:
    """Return the JSON object in ``path``.

    Raises ``error``, which names the file, if it is missing, unreadable, empty, or not a JSON
    object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as failure:
        raise error(f"{path}: cannot be read: {failure.strerror}\n  fix: {fix}") from failure
    except (ValueError, RecursionError) as failure:
        raise error(f"{path}: not JSON ({failure})\n  fix: {fix}") from failure
    if not isinstance(value, dict):
        seen = json.dumps(value)
        raise error(
            f"{path}: holds {seen if len(seen) <= 40 else seen[:40] + '...'}\n"
            f"  allowed: a JSON object\n  fix: {fix}"
        )
    return value


def write_json_atomic(path: Path, value: object) -> None:
    """Write the JSON of ``value``, as ``write_text_atomic``; unknown objects become their text."""
    text = json.dumps(finite(value), indent=2, default=str, allow_nan=False)
    write_text_atomic(path, f"{text}\n")


def write_text_atomic(path: Path, text: str) -> None:
    """Write a file that has either the old or the new content at any time.

    Raises ``ResourceError`` if it cannot be written.
    """
    staged = staged_beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with staged.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
        sync(path.parent)
    except OSError as error:
        staged.unlink(missing_ok=True)
        problem, fix = (
            f"cannot be written: {error.strerror}",
            "free space there or make it writable",
        )
        if path.is_dir():
            problem, fix = "is a directory", "delete it"
        raise ResourceError(
            f"{path}: {problem}\n  fix: {fix}\n  kept: what was there before"
        ) from error


def finite(value: Any) -> Any:
    """Return the value with null for every number that JSON cannot express."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
