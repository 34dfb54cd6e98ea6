"""Fields of a configuration by their dotted keys, and the text of keys."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Key = tuple[str | int, ...]  # ("optimizer", "peak_lr"); a number is an index of a list

_DEEPEST_KEY = 5  # keys further down are not suggested
LISTS = (list, tuple, set, frozenset, Sequence)
MAPPINGS = (dict, Mapping)


@dataclass(frozen=True)
class Field:
    """Type, constraints and declaration of one key."""

    annotation: Any
    metadata: tuple[Any, ...] = ()
    info: FieldInfo | None = None

    @property
    def members(self) -> tuple[Any, ...]:
        """The alternatives of the type, without ``None`` and without ``Annotated``."""
        return tuple(m for m, _ in alternatives(self.annotation) if m is not type(None))

    @property
    def optional(self) -> bool:
        return any(member is type(None) for member, _ in alternatives(self.annotation))

    @property
    def only_sections(self) -> bool:
        return all(map(is_section, self.members)) and not self.optional

    @property
    def sections(self) -> tuple[type[BaseModel], ...]:
        """The configuration classes that the key takes."""
        return tuple(m for m in self.members if is_section(m))

    @property
    def lists(self) -> bool:
        return any((get_origin(m) or m) in LISTS for m in self.members)

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


def known_keys(kind: type[BaseModel], above: Key = ()) -> Iterator[str]:
    """Yield every dotted key of a configuration, sections included, to a depth of five levels."""
    for name, info in kind.model_fields.items():
        yield format_key((*above, name))
        for section in Field(info.annotation).sections if len(above) + 1 < _DEEPEST_KEY else ():
            yield from known_keys(section, (*above, name))


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


def alternatives(
    annotation: object, metadata: tuple[Any, ...] = ()
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield each alternative of a type with its constraints."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *extras = get_args(annotation)
        parts = (m.metadata if isinstance(m, FieldInfo) else [m] for m in extras)
        yield from alternatives(inner, (*metadata, *chain.from_iterable(parts)))
    elif origin in (Union, types.UnionType):
        for arg in get_args(annotation):
            yield from alternatives(arg, metadata)
    else:
        yield annotation, metadata


def is_section(annotation: object) -> bool:
    """Return True for a configuration class."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _step(annotation: Any, part: str | int) -> Field | None:
    """Return the field one step below a type: a key of a section or a dict, an item of a list."""
    if is_section(annotation):
        info = annotation.model_fields.get(part)
        return Field(info.annotation, tuple(info.metadata), info) if info else None
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if isinstance(part, str):
        return Field(arguments[1]) if origin in MAPPINGS and len(arguments) == 2 else None
    if origin is tuple and Ellipsis not in arguments:
        return Field(arguments[part]) if part < len(arguments) else None
    return Field(arguments[0]) if origin in LISTS and arguments else None
