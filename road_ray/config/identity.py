"""Identity of a run: marks of the fields that do not decide its result, and the values of others.

A field is marked where it is declared; a subclass that declares it again keeps the mark. A field
without a mark decides: a run is not resumed with another value of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, TypeVar

from road_ray.config.base import Config, to_dict

T = TypeVar("T")


@dataclass(frozen=True)
class Mark:
    """Mark of a field. It does not hold where ``unless`` is set, a key of the same section such as
    ``early_stopping.patience``.
    """

    unless: str = ""


class FreeOnResume(Mark):
    """A value that may differ when a run is resumed: it does not change the result."""


class ByContent(Mark):
    """Paths of files whose content is compared instead: on another machine they lie elsewhere."""


class Extends(Mark):
    """A value that may differ in a finished run, which then runs what is missing."""


Free = Annotated[T, FreeOnResume()]
"""Type of a field that may always differ when a run is resumed."""


def marked(config: Config, kind: type[Mark]) -> set[str]:
    """Return the dotted keys of the values and sections with a mark of this kind."""
    return set(_marked(config, kind))


def resume_identity(config: Config) -> dict[str, Any]:
    """Return the verb and every dotted key that determines the result of a run, without paths of
    files that are compared by content; a mapping that is no section is one value. Copies of
    checkpoints record it, because a mirror outlives run directories and may be given to many runs.
    """
    verb = type(config).__name__.removesuffix("Config").lower()
    left_out = set(_marked(config, Mark))
    return {"verb": verb} | dict(_values(config, to_dict(config), left_out))


def _marked(config: Config, kind: type[Mark], above: str = "") -> Iterator[str]:
    """Yield the dotted keys of all fields with a mark, in sections and in mappings of sections."""
    for name in type(config).model_fields:
        value = getattr(config, name)
        marks = [mark for mark in _marks(config, name) if isinstance(mark, kind)]
        if any(not mark.unless or attrgetter(mark.unless)(config) is None for mark in marks):
            yield above + name
        elif isinstance(value, Config):
            yield from _marked(value, kind, f"{above}{name}.")
        elif isinstance(value, Mapping):
            for key, entry in value.items():
                if isinstance(entry, Config):
                    yield from _marked(entry, kind, f"{above}{name}.{key}.")


def _marks(config: Config, name: str) -> Iterator[Mark]:
    """Yield the marks of a field in its class and in the classes that declared it before."""
    for kind in type(config).__mro__:
        if issubclass(kind, Config) and name in kind.model_fields:
            yield from (item for item in kind.model_fields[name].metadata if isinstance(item, Mark))


def _values(
    config: Config, plain: Mapping[str, Any], left_out: set[str], above: str = ""
) -> Iterator[tuple[str, Any]]:
    for name, value in plain.items():
        key = above + name
        inner = getattr(config, name)
        if key in left_out:
            continue
        if isinstance(inner, Config):
            yield from _values(inner, value, left_out, f"{key}.")
        elif isinstance(inner, Mapping):
            yield (
                key,
                {entry: _without(left_out, f"{key}.{entry}", value[entry]) for entry in value},
            )
        else:
            yield key, value


def _without(left_out: set[str], above: str, entry: object) -> object:
    """Return the entry of a mapping; of a section, the fields that are not left out."""
    if not isinstance(entry, Mapping):
        return entry
    return {name: value for name, value in entry.items() if f"{above}.{name}" not in left_out}
