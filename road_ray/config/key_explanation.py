"""Explanations of single keys: type, allowed values, default, meaning and source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from road_ray.config.allowed_values import allowed_values, type_name
from road_ray.config.dotted_keys import Field, Key, field_at, one_line

UNSET = object()  # the default of a key that must be set
# A sentence "Source: ..." or "Source of the defaults: ...", to a full stop that ends it.
_SOURCE = re.compile(r"\bSource\b[^:.]{0,40}: (?P<source>.*?(?<!\bal))(?:\.(?= [A-Z`]|$)|$) ?")


@dataclass(frozen=True)
class KeyInfo:
    """One key of a configuration; ``default`` is a plain value, or ``UNSET``."""

    key: Key
    type: str
    allowed: str
    default: Any
    meaning: str
    source: str
    field: Field

    @property
    def keys_below(self) -> list[str]:
        """The names of the keys of a section."""
        return self.field.keys


def key_info(kind: type[BaseModel], key: Key) -> KeyInfo | None:
    """Return the explanation of a key, or None if the configuration has no such key."""
    field = field_at(kind, key)
    if field is None or not key:
        return None
    meaning, source = _without_source(field.meaning or _about(field))
    if not source and len(key) > 1:  # that of the section's defaults
        above = field_at(kind, key[:-1])
        source = _without_source(_about(above))[1] if above else ""
    section = field.only_sections
    return KeyInfo(
        key=key,
        type=type_name(field),
        allowed=f"the keys {', '.join(field.keys)}" if section else allowed_values(field),
        default=_default(kind, key),
        meaning=meaning,
        source=source,
        field=field,
    )


def section_infos(kind: type[BaseModel], above: Key = ()) -> Iterator[KeyInfo]:
    """Yield the explanations of the keys of one section, in their order."""
    for name in (field_at(kind, above) or Field(kind)).keys:
        info = key_info(kind, (*above, name))
        if info is not None:
            yield info


@cache
def defaults(kind: type[BaseModel]) -> Mapping[str, Any]:
    """Return the defaults of a configuration class as plain values, without required keys."""
    try:
        config = kind()
    except ValidationError:  # a key without a default
        config = kind.model_construct()
    return config.model_dump(mode="json", round_trip=True, warnings=False)


def value_at(values: object, key: Key) -> Any:
    """Return the value at a key of nested mappings, or ``UNSET``."""
    for part in key:
        if not isinstance(values, Mapping) or part not in values:
            return UNSET
        values = values[part]
    return values


def _default(kind: type[BaseModel], key: Key) -> Any:
    for depth in range(len(key)):  # a section that is absent by default has those of its class
        field = field_at(kind, key[:depth])
        for section in field.sections if field else ():
            value = value_at(defaults(kind) if depth == 0 else defaults(section), key[depth:])
            if value is not UNSET:
                return value
    return UNSET


def _about(field: Field) -> str:
    return " ".join(one_line(section.__doc__ or "") for section in field.sections)


def _without_source(text: str) -> tuple[str, str]:
    """Return the text without its source, and the source."""
    match = _SOURCE.search(text)
    if match is None:
        return text, ""
    return f"{text[: match.start()]}{text[match.end() :]}".strip(), match["source"]
