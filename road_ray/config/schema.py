"""JSON schemas of configuration files, for the completion and the checks of editors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from road_ray.config.fields import one_line

# The newest draft that yaml-language-server checks values by.
_DRAFT = "http://json-schema.org/draft-07/schema#"
_MISSING = object()


def json_schema(kind: type[BaseModel], presets: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON schema of a configuration file; ``presets`` are allowed as ``preset``.

    Sections are written out where they stand, each with the defaults that it has there. No key is
    required: a preset or an override may set it.
    """
    made = kind.model_json_schema()
    schema: dict[str, Any] = _written_out(made, made.get("$defs", {}))
    if presets:
        about = "The named configuration that this file changes; `road presets` lists them."
        preset = {"type": "string", "enum": list(presets), "description": about}
        schema["properties"] = {"preset": preset} | schema["properties"]
    return {"$schema": _DRAFT, "title": kind.__name__} | schema


def _written_out(part: Any, sections: Mapping[str, Any], default: Any = _MISSING) -> Any:
    """The part of a schema without references; ``default`` is that of the section it stands in."""
    if isinstance(part, list):
        return [_written_out(one, sections) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        part = sections[part["$ref"].rpartition("/")[2]] | part
    if default is _MISSING:
        default = part.get("default", _MISSING)
    left_out = {"$ref", "$defs", "title", "required", "default", "discriminator", "prefixItems"}
    made = {name: value for name, value in part.items() if name not in left_out}
    for name in {"anyOf", "oneOf", "allOf", "items", "additionalProperties"} & made.keys():
        made[name] = _written_out(made[name], sections)
    if "prefixItems" in part:
        made["items"] = _written_out(part["prefixItems"], sections)
    if "properties" in part:
        own = default if isinstance(default, dict) else {}
        made["properties"] = {
            name: _written_out(below, sections, own.get(name, _MISSING))
            for name, below in part["properties"].items()
        }
    elif default is not _MISSING:
        made["default"] = default
    if "description" in made:
        made["description"] = one_line(made["description"])
    return made
