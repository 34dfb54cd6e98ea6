"""Relative paths in a YAML file: a file beside the YAML file is found from every directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from road_ray.config.dotted_keys import Key, field_at


@dataclass(frozen=True)
class BesideFile:
    """Mark of a field: a relative path in a YAML file refers to a file beside it, if one exists.
    ``unless`` is a key of the same section; if it is set, the value is not a path.
    """

    unless: str = ""

    def located(self, value: object, file: Path, section: Mapping[str, object]) -> Any:
        """Return the absolute path beside ``file``, or the unchanged value."""
        if not isinstance(value, str) or not value or section.get(self.unless) is not None:
            return value
        place = Path(os.path.abspath(file)).parent / value
        try:
            exists = place.exists() or place.with_name(f"{place.name}.gz").exists()
        except (OSError, ValueError):  # not a file name
            return value
        return str(place) if exists and not Path(value).is_absolute() else value


def locate_beside(
    kind: type[BaseModel], path: Path, section: dict[str, Any], above: Key = ()
) -> None:
    """Replace paths of files beside a YAML file by absolute ones; keys may be dotted."""
    for name, value in section.items():
        key = (*above, *str(name).split("."))
        field = field_at(kind, key)
        marks = [m for m in (field.metadata if field else ()) if isinstance(m, BesideFile)]
        if isinstance(value, dict) and not marks:
            locate_beside(kind, path, value, key)
        for mark in marks:
            section[name] = mark.located(value, path, section)
