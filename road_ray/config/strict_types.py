"""Strict numbers and bools, and paths, of a configuration, beyond the checks of pydantic."""

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


def strict_types(schema: object) -> None:
    """Add a strict validator before every number and bool of a core schema, in place."""
    if isinstance(schema, dict):
        for name, inner in schema.items():
            if name not in _NO_SCHEMAS:
                schema[name] = _with_validator(inner)
    elif isinstance(schema, list):
        schema[:] = [_with_validator(inner) for inner in schema]


def _with_validator(inner: Any) -> Any:
    validator = _validator_of(inner) if isinstance(inner, dict) else None
    if validator is not None:
        return core_schema.no_info_before_validator_function(validator, inner)
    strict_types(inner)
    return inner


def _validator_of(schema: dict[str, Any]) -> Callable[[Any], Any] | None:
    if schema.get("type") == "literal":  # True equals 1; choices of text need no validator
        return _number if int in map(type, schema["expected"]) else None
    return _VALIDATORS.get(str(schema.get("type")))


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
_VALIDATORS = {"float": _number, "int": _whole_number, "bool": _truth}


def texts(value: object) -> Iterator[str | Path]:
    """Yield every text and path in a value, at any depth, including the keys of mappings."""
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
    """Raise ``ValueError`` for text that no file can hold, and for paths that Python and libraries,
    which use UTF-8, would encode differently.
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
    """Return the value with ``~`` expanded in every path of it."""
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
