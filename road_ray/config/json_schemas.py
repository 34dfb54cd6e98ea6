"""JSON schemas of configuration files, for the completion and the checks of editors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from road_ray.config.dotted_keys import one_line

# The newest draft that yaml-language-server supports for values.
_DRAFT = "http://json-schema.org/draft-07/schema#"
_MISSING = object()


def json_schema(kind: type[BaseModel], presets: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON schema of a configuration file; ``presets`` are allowed as ``preset``.

    Sections are inlined, each with its defaults in that place. No key is required: a preset or an
    override may set it.
    """
    made = kind.model_json_schema()
    schema: dict[str, Any] = _written_out(made, made.get("$defs", {}))
    if presets:
        about = "The named configuration that this file changes; `road presets` lists them."
        preset = {"type": "string", "enum": list(presets), "description": about}
        schema["properties"] = {"preset": preset} | schema["properties"]
    return {"$schema": _DRAFT, "title": kind.__name__} | schema


def _written_out(part: Any, sections: Mapping[str, Any], default: Any = _MISSING) -> Any:
    """Return a part of a schema without references; ``default`` is that of its section."""
    if isinstance(part, list):
        return [_written_out(item, sections) for item in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        part = sections[part["$ref"].rpartition("/")[2]] | part
    if default is _MISSING:
        default = part.get("default", _MISSING)
    left_out = {"$ref", "$defs", "title", "required", "default", "discriminator", "prefixItems"}
    schema = {name: value for name, value in part.items() if name not in left_out}
    for name in {"anyOf", "oneOf", "allOf", "items", "additionalProperties"} & schema.keys():
        schema[name] = _written_out(schema[name], sections)
    if "prefixItems" in part:
        schema["items"] = _written_out(part["prefixItems"], sections)
    if "properties" in part:
        section_defaults = default if isinstance(default, dict) else {}
        schema["properties"] = {
            name: _written_out(below, sections, section_defaults.get(name, _MISSING))
            for name, below in part["properties"].items()
        }
    elif default is not _MISSING:
        schema["default"] = default
    if "description" in schema:
        schema["description"] = one_line(schema["description"])
    return schema
