"""Base class of all configurations; their plain values and digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from road_ray.config.url_secrets import refuse_secret

_LARGEST = 2**63 - 1  # of Python's counters and of the columns of torch and Arrow


class Config(BaseModel):
    """One section of a configuration: frozen, no unknown keys, no NaN. The text under a field is
    its description.

    ``load`` and ``override`` are strict: ``true`` is never a number, text never a whole number.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
        defer_build=True,
    )

    @classmethod
    def locate(cls, values: dict[str, Any], file: Path) -> None:
        """Make paths in the values of a YAML file absolute that no mark of a field covers."""

    @field_validator("*", mode="after")
    @classmethod
    def _without_secrets(cls, value: object) -> Any:
        """Refuse addresses with a secret and whole numbers of more than 64 bits; expand ``~``."""
        if any(not -_LARGEST - 1 <= number <= _LARGEST for number in _whole_numbers(value)):
            raise ValueError("is too large\n    allowed: whole numbers of at most 64 bits")
        for text in _texts(value):
            refuse_secret(str(text))
        return _expanded(value)


def _whole_numbers(value: object) -> Iterator[int]:
    """Yield every whole number in a value, at any depth."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping):
        yield from (number for item in value.values() for number in _whole_numbers(item))
    elif isinstance(value, list | tuple):
        yield from (number for item in value for number in _whole_numbers(item))


def _texts(value: object) -> Iterator[str | Path]:
    """Yield every text and path in a value, at any depth, including the keys of mappings."""
    if isinstance(value, str | Path):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for pair in value.items() for part in pair for text in _texts(part))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (text for item in value for text in _texts(item))


def _expanded(value: object) -> Any:
    """Return the value with ``~`` expanded in every path of it."""
    if isinstance(value, Path):
        try:
            return value.expanduser()
        except RuntimeError:
            raise ValueError(f"no home directory for {str(value)!r}") from None
    if isinstance(value, list | tuple) and any(isinstance(item, Path) for item in value):
        return type(value)(map(_expanded, value))
    if isinstance(value, dict) and any(isinstance(item, Path) for item in value.values()):
        return {name: _expanded(item) for name, item in value.items()}
    return value


def to_dict(config: BaseModel) -> dict[str, Any]:
    """Return the whole configuration as plain values: dicts, lists, text, numbers, bools, null."""
    return config.model_dump(mode="json", round_trip=True)


def digest(config: Config) -> str:
    """Return twelve hexadecimal digits that change with any value of the configuration."""
    text = json.dumps(to_dict(config), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
