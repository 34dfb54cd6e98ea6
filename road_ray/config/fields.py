"""Fields of a configuration by their dotted keys, and descriptions of the values they take."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from road_ray.config.addresses import masked

Key = tuple[str | int, ...]  # ("optimizer", "peak_lr"); a number is an index of a list

_LONGEST_SHOWN = 80  # characters of a value repeated in a message
_DEEPEST_KEY = 5  # keys further down are not suggested
_LISTS = (list, tuple, set, frozenset, Sequence)
_MAPPINGS = (dict, Mapping)
_PLAIN = {bool: "true or false", str: "text", Path: "a path", Any: "any value"}

_TYPES = _PLAIN | {int: "whole number", float: "number", Path: "path"}


@dataclass(frozen=True)
class Field:
    """Type, constraints and declaration of one key."""

    annotation: Any
    metadata: tuple[Any, ...] = ()
    info: FieldInfo | None = None

    @property
    def members(self) -> tuple[Any, ...]:
        """The alternatives of the type, without ``None`` and without ``Annotated``."""
        return tuple(m for m, _ in _members(self.annotation) if m is not type(None))

    @property
    def optional(self) -> bool:
        return any(member is type(None) for member, _ in _members(self.annotation))

    @property
    def only_sections(self) -> bool:
        return all(map(_is_section, self.members)) and not self.optional

    @property
    def sections(self) -> tuple[type[BaseModel], ...]:
        """The configuration classes that the key takes."""
        return tuple(m for m in self.members if _is_section(m))

    @property
    def lists(self) -> bool:
        return any((get_origin(m) or m) in _LISTS for m in self.members)

    def is_list_of_words(self, text: str, value: object) -> bool:
        """Return whether the override ``text``, which is ``value`` in YAML, is a list without
        brackets: words for a key that takes a list, but neither text nor exactly this value.
        """
        is_words = isinstance(value, str) and text[:1] not in ("'", '"')
        takes_text = str in self.members or Path in self.members or value in self.literals
        return is_words and self.lists and not takes_text

    @property
    def choices(self) -> list[Any]:
        extra = self.info.json_schema_extra if self.info else None
        registered = extra.get("enum") if isinstance(extra, Mapping) else None
        return [*self.literals, *(registered if isinstance(registered, list) else [])]

    @property
    def literals(self) -> list[Any]:
        """The values of ``Literal`` members."""
        return [c for m in self.members if get_origin(m) is Literal for c in get_args(m)]

    @property
    def meaning(self) -> str:
        """The description on one line, empty if there is none."""
        return one_line(self.info.description or "") if self.info else ""

    @property
    def keys(self) -> list[str]:
        """The names of the keys of the sections that the key takes."""
        return list(dict.fromkeys(name for s in self.sections for name in s.model_fields))


def one_line(docstring: str) -> str:
    """Return a docstring on one line, with single backticks."""
    return " ".join(docstring.split()).replace("``", "`")


def format_key(key: Key) -> str:
    """Return a key as text: ``groups[2].name`` for ``("groups", 2, "name")``."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def format_value(value: object) -> str:
    """Return a value as YAML writes it, on one short line, without the secrets of addresses."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else "-.inf" if value < 0 else ".inf"
    value = value.value if isinstance(value, Enum) else value
    value = str(value) if isinstance(value, Path) else value
    written = isinstance(value, str | list | dict)
    text = json.dumps(value, ensure_ascii=False, default=str) if written else repr(value)
    text = masked(text)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def field_at(kind: type[BaseModel], key: Key) -> Field | None:
    """Return the declaration of a key, or None if the configuration has no such key."""
    field = Field(kind)
    for part in key:
        candidates = (_step(member, part) for member in field.members)
        match = next((f for f in candidates if f is not None), None)
        if match is None:
            return None
        field = match
    return field


def allowed_values(field: Field) -> str:
    """Return the values that a field takes, in words: ``0 <= value <= 1``, ``true or false``."""
    if field.members == (str,) and field.choices:  # names of a registry
        return " or ".join(map(format_value, field.choices))
    pairs = _members(field.annotation, field.metadata)
    texts = [
        _allowed_member(member, bounds) for member, bounds in pairs if member is not type(None)
    ]
    return " or ".join(dict.fromkeys([*texts, "null"] if field.optional else texts))


def type_name(field: Field) -> str:
    """Return the type of a field in words: ``whole number``, ``list of text``, ``path or null``."""
    names = [_member_type(member) for member in field.members]
    return " or ".join(dict.fromkeys([*names, "null"] if field.optional else names))


def known_keys(kind: type[BaseModel], above: Key = ()) -> Iterator[str]:
    """Yield every dotted key of a configuration, sections included, to a depth of five levels."""
    for name, info in kind.model_fields.items():
        yield format_key((*above, name))
        for section in Field(info.annotation).sections if len(above) + 1 < _DEEPEST_KEY else ():
            yield from known_keys(section, (*above, name))


def _members(
    annotation: object, metadata: tuple[Any, ...] = ()
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield each alternative of a type with its constraints."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *extras = get_args(annotation)
        parts = (m.metadata if isinstance(m, FieldInfo) else [m] for m in extras)
        yield from _members(inner, (*metadata, *chain.from_iterable(parts)))
    elif origin in (Union, types.UnionType):
        for arg in get_args(annotation):
            yield from _members(arg, metadata)
    else:
        yield annotation, metadata


def _step(annotation: Any, part: str | int) -> Field | None:
    """Return the field one step below a type: a key of a section or a dict, an item of a list."""
    if _is_section(annotation):
        info = annotation.model_fields.get(part)
        return Field(info.annotation, tuple(info.metadata), info) if info else None
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if isinstance(part, str):
        return Field(arguments[1]) if origin in _MAPPINGS and len(arguments) == 2 else None
    if origin is tuple and Ellipsis not in arguments:
        return Field(arguments[part]) if part < len(arguments) else None
    return Field(arguments[0]) if origin in _LISTS and arguments else None


def _is_section(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _allowed_member(annotation: Any, metadata: tuple[Any, ...]) -> str:
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if origin is Literal:
        return " or ".join(format_value(choice) for choice in arguments)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(format_value(choice.value) for choice in annotation)
    if _is_section(annotation):
        return f"a section with the keys {', '.join(annotation.model_fields) or '(none)'}"
    if origin in _LISTS or origin in _MAPPINGS:
        return _allowed_collection(origin, arguments) + _length(metadata)
    if annotation in (int, float):
        noun = "a whole number" if annotation is int else "a finite number"
        span = _range(metadata)
        return span if span and annotation is float else f"{noun}, {span}" if span else noun
    return _PLAIN.get(annotation, getattr(annotation, "__name__", str(annotation))) + _length(
        metadata
    )


def _member_type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if origin is Literal:
        return " or ".join(dict.fromkeys(_member_type(type(choice)) for choice in arguments))
    if _is_section(annotation):
        return "section"
    if origin in _MAPPINGS:
        below = type_name(Field(arguments[1])) if arguments else ""
        return f"mapping of names to {below}" if below else "mapping"
    if origin in _LISTS:
        below = type_name(Field(arguments[0])) if arguments else ""
        return f"list of {below}" if below else "list"
    return _TYPES.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _allowed_collection(origin: Any, arguments: tuple[Any, ...]) -> str:
    if origin in _MAPPINGS:
        return "a mapping of names" + (
            f" to: {allowed_values(Field(arguments[1]))}" if arguments else ""
        )
    if origin is tuple and arguments and Ellipsis not in arguments:
        items = ", ".join(allowed_values(Field(argument)) for argument in arguments)
        return f"a list of {len(arguments)}: [{items}]"
    return "a list" + (f" of: {allowed_values(Field(arguments[0]))}" if arguments else "")


def _range(metadata: tuple[Any, ...]) -> str:
    """Return ``0 <= value <= 1``, ``value > 0``, or an empty text if there is no bound."""
    low = high = step = ""
    alone = ""
    for bound in metadata:
        if isinstance(bound, Ge):
            low, alone = f"{bound.ge} <= ", f"value >= {bound.ge}"
        elif isinstance(bound, Gt):
            low, alone = f"{bound.gt} < ", f"value > {bound.gt}"
        elif isinstance(bound, Le):
            high = f" <= {bound.le}"
        elif isinstance(bound, Lt):
            high = f" < {bound.lt}"
        elif isinstance(bound, MultipleOf):
            step = f"a multiple of {bound.multiple_of}"
    span = f"{low}value{high}" if high else alone
    return ", ".join(text for text in (span, step) if text)


def _length(metadata: tuple[Any, ...]) -> str:
    texts = []
    for bound in metadata:
        if isinstance(bound, MinLen):
            texts.append(f", length at least {bound.min_length}")
        elif isinstance(bound, MaxLen):
            texts.append(f", length at most {bound.max_length}")
        elif pattern := getattr(bound, "pattern", None):
            texts.append(f" like {pattern}")
    return "".join(texts)
