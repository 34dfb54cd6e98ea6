"""Parsing of overrides ``key=value``, from a command line or Python, by the type of their field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from road_ray.config.allowed_values import format_value
from road_ray.config.dotted_keys import Field, Key, field_at
from road_ray.config.error_messages import InvalidConfig
from road_ray.config.yaml_files.reader import parse_value
from road_ray.errors import Problem


@dataclass(frozen=True)
class Override:
    """A value for a key, and its origin for messages."""

    key: Key
    value: Any
    where: str


def parse_overrides(
    kind: type[BaseModel], overrides: Sequence[str] | Mapping[str, Any]
) -> tuple[list[Override], list[Problem]]:
    """Return the valid overrides, and the mistakes of the others."""
    parsed: list[Override] = []
    problems: list[Problem] = []
    written: list[tuple[str, Any, str | None]]
    if isinstance(overrides, Mapping):
        written = [(str(name), value, None) for name, value in overrides.items()]
    else:
        texts = [overrides] if isinstance(overrides, str) else overrides
        written = [(text.partition("=")[0].strip(), None, text) for text in texts]
    for name, value, text in written:
        where = (
            f"override {text!r}" if text is not None else f"override '{name}={format_value(value)}'"
        )
        try:
            if text is not None:
                value = _value_of(kind, name, text, where)
            parsed.append(_override(kind, name, value, where))
        except InvalidConfig as error:
            problems += error.problems
    return parsed, problems


def _value_of(kind: type[BaseModel], name: str, text: str, where: str) -> Any:
    _, equals, written = text.partition("=")
    if not equals:
        raise InvalidConfig([Problem(where, "has no '='", f"write {name or 'key'}=VALUE")])
    return _parsed(written.strip(), field_at(kind, tuple(name.split("."))), where)


def _override(kind: type[BaseModel], name: str, value: object, where: str) -> Override:
    key = tuple(name.split("."))
    if not all(key):
        problem = Problem(where, f"{name!r} is not a key", "write section.key=VALUE")
        raise InvalidConfig([problem])
    field = field_at(kind, key)
    if field and bool in field.members and value in ("true", "false"):
        value = value == "true"
    if isinstance(value, Path):
        value = str(value)
    if hasattr(value, "item") and hasattr(value, "dtype"):
        value = value.item()  # a NumPy scalar, as samplers draw them
    return Override(key, value, where)


def _parsed(text: str, field: Field | None, where: str) -> Any:
    """Return the value of an override. It is parsed as YAML, except that a field of text takes it
    unchanged, and ``a,b`` may stand for ``[a,b]``, whose brackets some shells remove.
    """
    nothing = text in ("null", "~", "") and field is not None and field.optional
    only_text = field is not None and field.members in ((str,), (Path,))
    if nothing:
        return None
    if only_text and text[:1] not in ("'", '"'):
        return text
    value = parse_value(text, where)
    if field is not None and field.is_list_of_words(text, value):
        return [parse_value(part, where) for part in value.split(",")]
    return value
