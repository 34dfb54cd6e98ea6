"""The JSON schema of a configuration class, without references, and questions to it.

It is the one source of explanations, completion, messages, the reference page and the schemas for
editors. A *node* is the part of a schema that describes one key.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel

from road_ray.config.secrets import masked
from road_ray.errors import shorten

Key = tuple[str | int, ...]  # ("optimizer", "peak_lr"); a number is an index of a list
Node = Mapping[str, Any]

UNSET: Any = "must be set"  # in place of the default of such a key; known by its identity
# The newest draft that yaml-language-server supports for values.
_DRAFT = "http://json-schema.org/draft-07/schema#"
_LEFT_OUT = {"$ref", "$defs", "title", "required", "default", "prefixItems"}
_NOUNS = {"boolean": "true or false", "integer": "a whole number", "number": "a finite number"}


def json_schema(kind: type[BaseModel], presets: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON schema of a configuration file; ``presets`` are allowed as ``preset``.

    Sections are inlined, each with its defaults in that place. No key is required: a preset or an
    override may set it.
    """
    schema = dict(schema_of(kind))
    if presets:
        about = "The named configuration that this file changes; `road presets` lists them."
        preset = {"type": "string", "enum": list(presets), "description": about}
        schema["properties"] = {"preset": preset} | schema["properties"]
    return {"$schema": _DRAFT, "title": kind.__name__} | schema


@cache
def schema_of(kind: type[BaseModel]) -> Node:
    """Return the resolved schema of a class. ``x-about`` is the docstring of a section's class."""
    made = kind.model_json_schema()
    schema: Node = _resolved(made, made.get("$defs", {}))
    return schema


def _resolved(part: Any, sections: Mapping[str, Any], default: Any = UNSET) -> Any:
    """Return a part of a schema without references; ``default`` is that of its section."""
    if isinstance(part, list):
        return [_resolved(item, sections) for item in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        section = sections[part["$ref"].rpartition("/")[2]]
        part = section | {"x-about": section.get("description", "")} | part
    if default is UNSET:
        default = part.get("default", UNSET)
    schema = {name: value for name, value in part.items() if name not in _LEFT_OUT}
    for name in {"anyOf", "items", "additionalProperties"} & schema.keys():
        schema[name] = _resolved(schema[name], sections)
    if "prefixItems" in part:
        schema["items"] = _resolved(part["prefixItems"], sections)
    if "properties" in part:
        own = default if isinstance(default, dict) else {}
        schema["properties"] = {
            name: _resolved(below, sections, own.get(name, UNSET))
            for name, below in part["properties"].items()
        }
        for name in part.get("required", ()):
            schema["properties"][name]["x-required"] = True
    elif default is not UNSET:
        schema["default"] = default
    for name in {"description", "x-about"} & schema.keys():  # docstrings, as one line
        schema[name] = " ".join(schema[name].split()).replace("``", "`")
    return schema


def members(node: Node) -> list[Node]:
    """Return the alternatives of a node, without null."""
    inner = node.get("anyOf")
    parts = [node] if inner is None else [m for part in inner for m in members(part)]
    return [part for part in parts if part.get("type") != "null"]


def types(node: Node) -> set[str]:
    """Return the JSON types of a node; ``path`` stands for text that is a path, ``""`` for any."""
    return {"path" if m.get("format") == "path" else m.get("type", "") for m in members(node)}


def is_optional(node: Node) -> bool:
    """Return True if a key takes null."""
    return any(part.get("type") == "null" for part in node.get("anyOf", ()))


def properties(node: Node) -> dict[str, Node]:
    """Return the keys of the sections that a key takes."""
    return {name: below for m in members(node) for name, below in m.get("properties", {}).items()}


def is_section(node: Node) -> bool:
    """Return True for a key that takes nothing but a section."""
    return all("properties" in part for part in node.get("anyOf", [node]))


def choices(node: Node) -> list[Any]:
    """Return the values that a key is restricted to, and those of a registry."""
    parts = [node, *members(node)]  # one that has a single choice has it as `const`
    found = [c for part in parts for c in (*part.get("enum", ()), part.get("const"))]
    return [value for value in dict.fromkeys(found) if value is not None]


def at(kind: type[BaseModel] | Node, key: Key) -> Node | None:
    """Return the node of a key of a class or of its schema, or None if it has no such key."""
    node: Node | None = schema_of(kind) if isinstance(kind, type) else kind
    for part in key:
        found: list[Node | None] = []
        for member in members(node or {}):
            if isinstance(part, str):  # a key of a section or a mapping
                below = member.get("properties", {}).get(part) or member.get("additionalProperties")
                found.append({} if below is True else below or None)
            else:  # an item of a list: each has a node, or all have one
                items = member.get("items")
                found += items[part : part + 1] if isinstance(items, list) else [items]
        node = next((below for below in found if below is not None), None)
        if node is None:
            return None
    return node


def known_keys(node: Node, above: Key = ()) -> Iterator[str]:
    """Yield every dotted key of a node, sections included."""
    for name, below in properties(node).items():
        yield format_key((*above, name))
        yield from known_keys(below, (*above, name))


def format_key(key: Key) -> str:
    """Return a key as text: ``groups[2].name`` for ``("groups", 2, "name")``."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def default_of(node: Node) -> Any:
    """Return the default of a key, of a section that of its keys, or ``UNSET``."""
    if "default" in node:
        return node["default"]
    if not is_section(node) or "x-required" in node:
        return UNSET
    below = {name: default_of(inner) for name, inner in properties(node).items()}
    return {name: value for name, value in below.items() if value is not UNSET}


def flatten(
    tree: Mapping[str, object], prefix: str = "", *, keep_empty: bool = False
) -> dict[str, Any]:
    """Return nested mappings as values by dotted key: ``{"a": {"b": 1}}`` -> ``{"a.b": 1}``.

    An empty mapping is left out unless ``keep_empty``.
    """
    values: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and (value or not keep_empty):
            values |= flatten(value, f"{prefix}{name}.", keep_empty=keep_empty)
        else:
            values[f"{prefix}{name}"] = value
    return values


def format_value(value: object) -> str:
    """Return a value as YAML writes it, on one short line, without the secrets of addresses."""
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else "-.inf" if value < 0 else ".inf"
    return shorten(masked(json.dumps(value, ensure_ascii=False, default=str)), 77)


def allowed(node: Node) -> str:
    """Return the values that a key takes, in words: ``0 <= value <= 1``, ``true or false``."""
    words = [format_value(c) for c in choices(node)] if "enum" in node else []
    words = words or [_allowed(member) for member in members(node)]
    return " or ".join(dict.fromkeys([*words, "null"] if is_optional(node) else words))


def _allowed(member: Node) -> str:
    if {"enum", "const"} & member.keys():
        return " or ".join(map(format_value, member.get("enum") or [member["const"]]))
    kind = member.get("type")
    if "properties" in member:
        return f"a section with the keys {', '.join(member['properties']) or '(none)'}"
    if kind in ("array", "object"):
        return _allowed_collection(member)
    if kind in ("integer", "number"):
        span = _range(member)
        return span if span and kind == "number" else ", ".join(filter(None, (_NOUNS[kind], span)))
    if kind == "string":
        least = f", length at least {member['minLength']}" if "minLength" in member else ""
        return ("a path" if member.get("format") == "path" else "text") + least
    return _NOUNS.get(str(kind), "any value")


def _allowed_collection(member: Node) -> str:
    article = "a non-empty" if member.get("minItems") or member.get("minProperties") else "a"
    if member["type"] == "object":
        below = member.get("additionalProperties", True)
        return f"{article} mapping{'' if below is True else f' with values: {allowed(below)}'}"
    items = member.get("items")
    if isinstance(items, list):
        return f"a list of {len(items)}: [{', '.join(map(allowed, items))}]"
    return f"{article} list with items: {allowed(items)}" if items else f"{article} list"


def _range(member: Node) -> str:
    """Return ``0 <= value <= 1``, ``value > 0``, or an empty text if there is no bound."""
    low, high = member.get("minimum"), member.get("maximum")
    below = "" if low is None else f"{low} <= "
    above = "" if high is None else f" <= {high}"
    if "exclusiveMinimum" in member:
        below = f"{member['exclusiveMinimum']} < "
    if "exclusiveMaximum" in member:
        above = f" < {member['exclusiveMaximum']}"
    if below and not above:
        number, sign = below.split()
        return f"value {sign.replace('<', '>')} {number}"
    return f"{below}value{above}" if above else ""


def meaning_of(node: Node) -> str:
    """Return the description of a key, or that of its section's class, with their sources."""
    above = " ".join(member.get("x-about", "") for member in members(node))
    return str(node.get("description") or above)
