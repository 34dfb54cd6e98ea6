"""Strict numbers and bools of a configuration, beyond the checks of pydantic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic_core import PydanticCustomError, core_schema


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
