"""Relative paths in a YAML file: a file beside the YAML file is found from every directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from road_ray.config.schema import Key, at, members


@dataclass(frozen=True)
class BesideFile:
    """Mark of a field: a relative path in a YAML file refers to a file beside it, if one exists.
    ``unless`` is a key of the same section; if it is set, the value is not a path.
    """

    unless: str = ""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(schema) | {"x-beside": self.unless}


def locate_beside(
    kind: type[BaseModel], path: Path, section: dict[str, Any], above: Key = ()
) -> None:
    """Replace paths of files beside a YAML file by absolute ones; keys may be dotted."""
    for name, value in section.items():
        key = (*above, *str(name).split("."))
        node = at(kind, key) or {}
        marks = [m["x-beside"] for m in (node, *members(node)) if "x-beside" in m]
        if isinstance(value, dict):
            locate_beside(kind, path, value, key)
        elif marks and isinstance(value, str) and value and section.get(marks[0]) is None:
            section[name] = _located(value, path)


def _located(value: str, file: Path) -> str:
    """Return the absolute path beside ``file``, or the unchanged value."""
    place = Path(os.path.abspath(file)).parent / value
    try:
        exists = place.exists() or place.with_name(f"{place.name}.gz").exists()
    except (OSError, ValueError):  # not a file name
        return value
    return str(place) if exists and not Path(value).is_absolute() else value
