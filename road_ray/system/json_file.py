"""Small JSON records that road_ray wrote itself, read with a typed error for whatever became of
them since.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from road_ray.errors import CheckpointError, RoadError


def read_json(
    path: Path,
    *,
    error: type[RoadError] = CheckpointError,
    fix: str = "restore the file, or make it again with the command that wrote it",
) -> dict[str, Any]:
    """Return the JSON object in ``path``.

    Raises ``error``, which names the file, when it is missing, unreadable, empty, no JSON, or no
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
