"""Numbers, bools and paths of a configuration, read more strictly than pydantic alone does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import PydanticCustomError, core_schema


@dataclass(frozen=True)
class BesideFile:
    """Mark of a field: a relative path in a YAML file names what is beside that file, if there is
    something of that name. ``unless`` is a key of the same section with which it is no path.
    """

    unless: str = ""

    def located(self, value: object, file: Path, section: Mapping[str, object]) -> Any:
        """Return the absolute path beside ``file``, or the value as it is."""
        if not isinstance(value, str) or not value or section.get(self.unless) is not None:
            return value
        place = Path(os.path.abspath(file)).parent / value
        try:
            there = place.exists() or place.with_name(f"{place.name}.gz").exists()
        except (OSError, ValueError):  # no name of a file
            return value
        return str(place) if there and not Path(value).is_absolute() else value


def strict_types(schema: object) -> None:
    """Put a strict look in front of every number and bool of a core schema, in place."""
    if isinstance(schema, dict):
        for name, inner in schema.items():
            if name not in _NO_SCHEMAS:
                schema[name] = _looked_at(inner)
    elif isinstance(schema, list):
        schema[:] = [_looked_at(inner) for inner in schema]


def _looked_at(inner: Any) -> Any:
    look = _look(inner) if isinstance(inner, dict) else None
    if look is not None:
        return core_schema.no_info_before_validator_function(look, inner)
    strict_types(inner)
    return inner


def _look(schema: dict[str, Any]) -> Callable[[Any], Any] | None:
    if schema.get("type") == "literal":  # True equals 1; choices of text need no look
        return _number if int in map(type, schema["expected"]) else None
    return _LOOKS.get(str(schema.get("type")))


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("number_expected", "true and false are not numbers")
    return value


def _whole_number(value: object) -> Any:
    if isinstance(value, str):
        raise PydanticCustomError("number_expected", "text is not a whole number")
    return _number(value)


def _truth(value: object) -> Any:
    if not isinstance(value, bool):
        raise PydanticCustomError("truth_expected", "neither true nor false")
    return value


_NO_SCHEMAS = ("metadata", "serialization", "default", "expected", "cls", "config", "ref")
_LOOKS = {"float": _number, "int": _whole_number, "bool": _truth}


def texts(value: object) -> Iterator[str | Path]:
    """Every text and path in a value, at any depth, names of mappings included."""
    if isinstance(value, str | Path):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from texts(name)
            yield from texts(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from texts(item)


def refuse_unwritable(text: str | Path) -> None:
    """Raises ``ValueError`` for text that no file can hold, and for paths that libraries, which
    take UTF-8, would look for elsewhere than Python does.
    """
    try:
        written = str(text).encode()
        fits = not isinstance(text, Path) or os.fsencode(text) == written
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise ValueError(
            f"{str(text)!a} is no UTF-8 here (file names are "
            f"{sys.getfilesystemencoding()})\n    allowed: UTF-8, in a locale that has it: "
            "LC_ALL=C.UTF-8, without PYTHONUTF8=0"
        )
    if isinstance(text, Path) and b"\0" in written:
        raise ValueError("holds a zero byte\n    allowed: a path without one")
    if isinstance(text, Path) and (len(written) > 4095 or any(map(_too_long, text.parts))):
        raise ValueError(
            "is too long for a path\n    allowed: at most 255 bytes a name and 4,095 in all"
        )


def _too_long(name: str) -> bool:
    return len(name.encode()) > 255


def expand_user(value: object) -> Any:
    """The value with ``~`` replaced in every path of it."""
    if isinstance(value, Path):
        try:
            return value.expanduser()
        except RuntimeError:
            raise ValueError(f"no home directory for {str(value)!r}") from None
    if isinstance(value, list | tuple) and any(isinstance(item, Path) for item in value):
        return type(value)(expand_user(item) for item in value)
    if isinstance(value, dict) and any(isinstance(item, Path) for item in value.values()):
        return {name: expand_user(item) for name, item in value.items()}
    return value
