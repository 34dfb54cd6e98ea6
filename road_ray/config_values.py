"""What counts as a number, a bool or a path in a configuration: stricter than pydantic alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic_core import PydanticCustomError, core_schema


def tame(schema: Any) -> None:
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
    tame(inner)
    return inner


def _look(schema: dict[str, Any]) -> Callable[[Any], Any] | None:
    if schema.get("type") == "literal":  # True equals 1; choices of text need no look
        return _number if int in map(type, schema["expected"]) else None
    return _LOOKS.get(str(schema.get("type")))


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("number_expected", "true and false are not numbers")
    return value


def _whole_number(value: Any) -> Any:
    if isinstance(value, str):
        raise PydanticCustomError("number_expected", "text is not a whole number")
    return _number(value)


def _truth(value: Any) -> Any:
    if not isinstance(value, bool):
        raise PydanticCustomError("truth_expected", "neither true nor false")
    return value


_NO_SCHEMAS = ("metadata", "serialization", "default", "expected", "cls", "config", "ref")
_LOOKS = {"float": _number, "int": _whole_number, "bool": _truth}


def expanded(value: Any) -> Any:
    """The value with ``~`` replaced in every path of it."""
    if isinstance(value, Path):
        try:
            return value.expanduser()
        except RuntimeError:
            raise ValueError(f"no home directory for {str(value)!r}") from None
    if isinstance(value, list | tuple) and any(isinstance(item, Path) for item in value):
        return type(value)(expanded(item) for item in value)
    if isinstance(value, dict) and any(isinstance(item, Path) for item in value.values()):
        return {name: expanded(item) for name, item in value.items()}
    return value
