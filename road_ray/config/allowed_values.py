"""Types and allowed values of a configuration's fields in words, and values as YAML writes them."""

from __future__ import annotations

import json
import math
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf

from road_ray.config.dotted_keys import LISTS, MAPPINGS, Field, alternatives, is_section
from road_ray.config.url_secrets import masked

_LONGEST_SHOWN = 80  # characters of a value repeated in a message
_PLAIN = {bool: "true or false", str: "text", Path: "a path", Any: "any value"}
_TYPES = _PLAIN | {int: "whole number", float: "number", Path: "path"}


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


def allowed_values(field: Field) -> str:
    """Return the values that a field takes, in words: ``0 <= value <= 1``, ``true or false``."""
    if field.members == (str,) and field.choices:  # names of a registry
        return " or ".join(map(format_value, field.choices))
    pairs = alternatives(field.annotation, field.metadata)
    texts = [
        _allowed_member(member, bounds) for member, bounds in pairs if member is not type(None)
    ]
    return " or ".join(dict.fromkeys([*texts, "null"] if field.optional else texts))


def type_name(field: Field) -> str:
    """Return the type of a field in words: ``whole number``, ``list of text``, ``path or null``."""
    names = [_member_type(member) for member in field.members]
    return " or ".join(dict.fromkeys([*names, "null"] if field.optional else names))


def _allowed_member(annotation: Any, metadata: tuple[Any, ...]) -> str:
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if origin is Literal:
        return " or ".join(format_value(choice) for choice in arguments)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(format_value(choice.value) for choice in annotation)
    if is_section(annotation):
        return f"a section with the keys {', '.join(annotation.model_fields) or '(none)'}"
    if origin in LISTS or origin in MAPPINGS:
        return _allowed_collection(origin, arguments, metadata)
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
    if is_section(annotation):
        return "section"
    if origin in MAPPINGS:
        below = type_name(Field(arguments[1])) if arguments else ""
        return f"mapping of names to {below}" if below else "mapping"
    if origin in LISTS:
        below = type_name(Field(arguments[0])) if arguments else ""
        return f"list of {below}" if below else "list"
    return _TYPES.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _allowed_collection(origin: Any, arguments: tuple[Any, ...], metadata: tuple[Any, ...]) -> str:
    filled = any(isinstance(bound, MinLen) and bound.min_length == 1 for bound in metadata)
    article = "a non-empty" if filled else "a"
    if origin in MAPPINGS:
        below = f" with values: {allowed_values(Field(arguments[1]))}" if arguments else ""
        return f"{article} mapping{below}"
    if origin is tuple and arguments and Ellipsis not in arguments:
        items = ", ".join(allowed_values(Field(argument)) for argument in arguments)
        return f"a list of {len(arguments)}: [{items}]"
    below = f" with items: {allowed_values(Field(arguments[0]))}" if arguments else ""
    return f"{article} list{below}"


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
