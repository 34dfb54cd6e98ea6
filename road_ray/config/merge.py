"""Loading of a configuration: preset, YAML file and overrides merged, with the origin of each
value.

``yaml_files/reader.py`` has the syntax of files, ``overrides.py`` that of ``key=value``,
``error_messages.py`` the wording of mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from road_ray.config.allowed_values import format_value
from road_ray.config.base_config import Config, to_dict
from road_ray.config.dotted_keys import Key, field_at
from road_ray.config.error_messages import (
    InvalidConfig,
    invalid_value,
    message_of,
    missing_key,
    unknown_key,
)
from road_ray.config.overrides import parse_overrides
from road_ray.config.yaml_files.reader import read_yaml
from road_ray.config.yaml_files.relative_paths import locate_beside
from road_ray.errors import Problem

T = TypeVar("T", bound=Config)


def load(
    kind: type[T],
    *,
    base: Mapping[str, Any] | None = None,
    path: Path | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
) -> T:
    """Return the configuration of a preset (``base``), overridden by a YAML file, overridden by
    ``a.b=value``.

    Sections and dicts are merged key by key, lists are replaced; an empty file or section changes
    nothing. The caller handles ``preset`` at the top of the file (`preset_named_in`).

    Raises ``InvalidConfig``, a ``ConfigError``, with every mistake: its line, key, range and
    remedy.
    """
    layers = Layers(kind, str(path) if path else "configuration")
    layers.put((), base or {}, "preset")
    if path is not None:
        try:
            layers.put_file(path)
        except InvalidConfig as error:
            layers.put_overrides(overrides)
            raise InvalidConfig([*error.problems, *layers.problems]) from None
    layers.put_overrides(overrides)
    return layers.validated(kind)


def override(config: T, changes: Mapping[str, object]) -> T:
    """Return a copy with changed dotted keys: ``override(config, {"optimizer.peak_lr": 1e-4})``."""
    kind = type(config)
    layers = Layers(kind, "configuration")
    layers.put((), to_dict(config), "configuration")
    layers.put_overrides(changes)
    return layers.validated(kind)


def preset_named_in(path: Path) -> str | None:
    """Return the ``preset: NAME`` of a YAML file, or None if it has none."""
    written = read_yaml(path)
    name = written.values.get("preset")
    if name is None or isinstance(name, str):
        return name
    where = f"{path}:{written.lines[('preset',)]}"
    message = f"preset = {format_value(name)}\n    allowed: the name of a preset"
    raise InvalidConfig([Problem(where, message, "`road presets` lists them")])


class Layers:
    """Values merged from several sources, with the origin of each value."""

    def __init__(self, kind: type[BaseModel], name: str) -> None:
        self.kind = kind
        self.name = name
        self.values: dict[str, Any] = {}
        self.origins: dict[Key, str] = {}
        self.problems: list[Problem] = []
        self.refused: set[Key] = set()  # keys whose mistake is already reported

    def put(self, key: Key, value: object, origin: str | Mapping[Key, str]) -> None:
        """Merge a value into a key; ``origin`` is one source, or one for each key."""
        if key:
            self._remember(key, origin)
        field = field_at(self.kind, key)
        if isinstance(value, BaseModel):
            value = value.model_dump(mode="json", round_trip=True)
        if value is None and field and field.only_sections:
            return  # "optimizer:" with nothing below it changes nothing
        if isinstance(value, Mapping):
            self._open(key)
            for name, below in value.items():
                self.put((*key, str(name)), below, origin)
            return
        self._close(key)
        self._parent(key)[str(key[-1])] = value
        if isinstance(origin, Mapping) and isinstance(value, list):
            inside = {k: text for k, text in origin.items() if k[: len(key)] == key}
            self.origins.update(inside)

    def put_file(self, path: Path) -> None:
        """Merge the values of a YAML file."""
        written = read_yaml(path)
        if "preset" not in self.kind.model_fields:
            written.values.pop("preset", None)
        self.problems += written.problems
        self.refused |= written.refused
        origins = {key: f"{path}:{line}" for key, line in written.lines.items()}
        locate_beside(self.kind, path, written.values)
        self.put((), written.values, origins)

    def put_overrides(self, overrides: Sequence[str] | Mapping[str, Any]) -> None:
        """Merge overrides: texts ``key=value``, or values by dotted key."""
        parsed, problems = parse_overrides(self.kind, overrides)
        self.problems += problems
        for override in parsed:
            for depth in range(1, len(override.key)):
                self._open(override.key[:depth])
                self.origins.setdefault(override.key[:depth], override.where)
            self.put(override.key, override.value, override.where)

    def validated(self, kind: type[T]) -> T:
        """Return the configuration of all layers.

        Raises ``InvalidConfig`` with all problems of merging and of validation.
        """
        try:
            config: T | None = kind.model_validate(self.values)
        except ValidationError as error:
            config = None
            self.problems += self._explained(error)
        if self.problems or config is None:
            raise InvalidConfig(sorted(self.problems, key=self._line))
        return config

    def _explained(self, error: ValidationError) -> Iterator[Problem]:
        reported: set[Key] = set()
        for entry in error.errors(include_url=False):
            key = self._key(entry["loc"])
            if key in reported or any(_overlap(key, refused) for refused in self.refused):
                continue
            reported.add(key)
            where = self._where(key) if key else self._where_of_message(message_of(entry))
            if entry["type"] == "extra_forbidden":
                for leaf, value in self._unknown_leaves(key, entry["input"], where):
                    yield unknown_key(self.kind, leaf, value, self._where(leaf))
            elif entry["type"] == "missing":
                yield missing_key(self.kind, key, where)
            else:
                yield invalid_value(self.kind, key, entry, where, self._beside(key))

    def _unknown_leaves(self, key: Key, value: object, where: str) -> Iterator[tuple[Key, Any]]:
        """Yield an unknown key and its value. An unknown section of a file is one mistake; each
        override that sets a key in one is a mistake of its own.
        """
        if where.startswith("override ") and isinstance(value, Mapping) and value:
            for name, below in value.items():
                yield from self._unknown_leaves((*key, name), below, where)
        else:
            yield key, value

    def _key(self, location: Sequence[str | int]) -> Key:
        """Return the key of pydantic's location, without the names of union branches in it."""
        key: Key = ()
        value: Any = self.values
        for part in location:
            inside = isinstance(value, Mapping) and part in value
            if inside or (isinstance(value, list) and isinstance(part, int) and part < len(value)):
                key, value = (*key, part), value[part]
            elif field_at(self.kind, (*key, part)):
                return (*key, part)  # not set
        return key

    def _beside(self, key: Key) -> list[str]:
        """Return the other names of the mapping that holds a key."""
        above: Any = self.values
        for part in key[:-1]:
            above = above.get(part) if isinstance(above, dict) else None
        names = above if key and isinstance(above, dict) else {}
        return [str(name) for name in names if name != key[-1]]

    def _where(self, key: Key) -> str:
        known = (key[:n] for n in range(len(key), 0, -1))
        return next((self.origins[k] for k in known if k in self.origins), self.name)

    def _where_of_message(self, message: str) -> str:
        """Return the origin of the key that a message about the whole configuration begins with, or
        of the first key below it.
        """
        first, *_ = message.split(maxsplit=1)
        key = tuple(first.rstrip(":,").split("."))
        below = (origin for k, origin in self.origins.items() if k[: len(key)] == key)
        return next(below, self._where(key))

    def _line(self, problem: Problem) -> tuple[int, int]:
        """Return a sort key: the mistakes of the file first, from top to bottom."""
        name, _, line = problem.where.rpartition(":")
        return (0, int(line)) if name == self.name and line.isdecimal() else (1, 0)

    def _remember(self, key: Key, origin: str | Mapping[Key, str]) -> None:
        if isinstance(origin, str):
            self.origins[key] = origin
        elif key in origin:
            self.origins[key] = origin[key]

    def _parent(self, key: Key) -> dict[str, Any]:
        values = self.values
        for part in key[:-1]:
            values = values[str(part)]
        return values

    def _open(self, key: Key) -> None:
        """Ensure that the value at a key is a mapping, replacing a plain value. A section starts
        with the defaults of its owner, which may differ from those of its class.
        """
        if key and not isinstance(self._parent(key).get(str(key[-1])), dict):
            self._close(key)
            self._parent(key)[str(key[-1])] = _default_overrides(self.kind, key)

    def _close(self, key: Key) -> None:
        """Remove the origins of the values below a key."""
        if not isinstance(self._parent(key).get(str(key[-1])), dict | list):
            return
        for below in [k for k in self.origins if len(k) > len(key) and k[: len(key)] == key]:
            del self.origins[below]


def _default_overrides(kind: type[BaseModel], key: Key) -> dict[str, Any]:
    """Return the defaults of a section that differ from those of its class."""
    default: Any = None
    for part in key:
        field = kind.model_fields.get(str(part))
        default = None if field is None else field.get_default(call_default_factory=True)
        if not isinstance(default, BaseModel):
            return {}
        kind = type(default)
    known: dict[str, Any] = default.model_dump(mode="json", round_trip=True, exclude_defaults=True)
    return known


def _overlap(key: Key, other: Key) -> bool:
    shared = min(len(key), len(other))
    return key[:shared] == other[:shared]
