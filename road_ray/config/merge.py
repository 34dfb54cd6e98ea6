"""Loading of a configuration: defaults, preset, YAML file and overrides merged, with the origin of
each value.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from road_ray.config import messages, schema
from road_ray.config.base import Config, to_dict
from road_ray.config.messages import InvalidConfig
from road_ray.config.schema import Key, Node, at
from road_ray.config.yaml_files import parse_yaml, read_yaml
from road_ray.errors import Problem

T = TypeVar("T", bound=Config)
_NONE: Mapping[Any, Any] = MappingProxyType({})
_TRUTHS, _NUMBERS = ("true", "false"), {"integer", "number"}
Overrides = Sequence[str] | Mapping[str, Any]


def load(
    kind: type[T],
    *,
    base: Mapping[str, Any] | None = None,
    path: Path | None = None,
    overrides: Overrides = (),
    keys: Mapping[str, object] = _NONE,
) -> T:
    """Return the configuration of a preset (``base``), overridden by a YAML file, overridden by
    ``a.b=value``, overridden by ``keys``.

    Sections and dicts are merged key by key, lists are replaced; an empty file or section changes
    nothing. The caller handles ``preset`` at the top of the file (`preset_named_in`).

    Raises ``InvalidConfig``, a ``ConfigError``, with every mistake: its line, key, range and
    remedy.
    """
    defaults = schema.default_of(schema.schema_of(kind))
    merged = _Merged(kind, str(path) if path else "configuration", defaults)
    merged.put(base or {}, "preset")
    if path is not None:
        merged.put_file(path)
    merged.put_overrides(overrides)
    merged.put_overrides(keys)
    return merged.validated(kind)


def override(config: T, changes: Overrides) -> T:
    """Return a copy with changed dotted keys: ``override(config, {"optimizer.peak_lr": 1e-4})``, or
    ``["optimizer.peak_lr=1e-4"]``.
    """
    merged = _Merged(type(config), "configuration", {})
    merged.put(to_dict(config), "configuration")
    merged.put_overrides(changes)
    return merged.validated(type(config))


def preset_named_in(path: Path) -> str | None:
    """Return the ``preset: NAME`` of a YAML file, or None if it has none."""
    name = read_yaml(path).values.get("preset")
    return None if name is None else str(name)


@dataclass
class _Merged:
    """Values from several sources over the defaults, and the sources, the last first."""

    kind: type[Config]
    name: str
    values: dict[str, Any]
    sources: list[tuple[Any, str, Mapping[Key, int]]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def put(self, values: Mapping[str, Any], where: str, lines: Mapping[Key, int] = _NONE) -> None:
        """Merge the values of a source, such as ``preset``; those of a file have lines."""
        given = _plain(values, schema.schema_of(self.kind))
        self.values = merge(self.values, given)
        self.sources.insert(0, (given, where, lines))

    def put_file(self, path: Path) -> None:
        """Merge the values of a YAML file."""
        written = read_yaml(path)
        if "preset" not in self.kind.model_fields:
            written.values.pop("preset", None)
        locate_beside(self.kind, path, written.values)
        self.kind.locate(written.values, path)
        self.put(written.values, str(path), written.lines)

    def put_overrides(self, overrides: Overrides) -> None:
        """Merge overrides: texts ``key=value``, or values by dotted key."""
        is_text = not isinstance(overrides, Mapping)
        texts = [overrides] if isinstance(overrides, str) else overrides
        for text in texts:
            name = text.partition("=")[0].strip() if is_text else str(text)
            value: Any = text if isinstance(texts, Sequence) else texts[text]
            where = f"override {text if is_text else f'{name}={schema.format_value(value)}'!r}"
            key = tuple(name.split("."))
            try:
                value = _parsed(text, at(self.kind, key) or {}, where) if is_text else value
                if not all(key):
                    problem = Problem(where, f"{name!r} is not a key", "write section.key=VALUE")
                    raise InvalidConfig([problem])
            except InvalidConfig as error:
                self.problems += error.problems
                continue
            if value in _TRUTHS and "boolean" in schema.types(at(self.kind, key) or {}):
                value = value == "true"
            for part in reversed(key):
                value = {part: value}
            self.put(value, where)

    def validated(self, kind: type[T]) -> T:
        """Return the configuration of all sources.

        Raises ``InvalidConfig`` with all problems of merging and of validation.
        """
        # Pydantic converts text and true to numbers; here they are mistakes.
        mistyped = _mistyped(self.values, schema.schema_of(self.kind))
        found = {key: {"type": "mistyped", "input": value, "msg": ""} for key, value in mistyped}
        told = list(found)
        config: T | None = None
        try:
            config = kind.model_validate(self.values)
        except ValidationError as error:
            for entry in error.errors(include_url=False):
                key = self._key(entry)
                if not any(key[: len(k)] == k[: len(key)] for k in told):
                    found.setdefault(key, {**entry})
        for key, told_once in found.items():
            inner = [k for k in found if k != key and k[: len(key)] == key]  # of another branch
            self.problems += self._explained(key, told_once) if not (key and inner) else ()
        if self.problems or config is None:
            raise InvalidConfig(sorted(self.problems, key=self._line))
        return config

    def _explained(self, key: Key, entry: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield the problems of the mistake at a key, as pydantic describes it."""
        where = self._where(key)
        if not key:  # of the whole: at the key that the message begins with
            named = messages.message_of(entry).split(maxsplit=1)[0].rstrip(":,")
            where = self._where(tuple(named.split(".")))
        if entry["type"] != "extra_forbidden":
            yield messages.invalid_value(self.kind, key, entry, where)
            return
        leaves = {key: entry["input"]}
        # A section of a file is one mistake; each override of a key in one is its own.
        if where.startswith("override ") and isinstance(entry["input"], Mapping):
            below = schema.flatten(entry["input"], keep_empty=True).items()
            leaves = {(*key, *name.split(".")): value for name, value in below} or leaves
        for leaf, value in leaves.items():
            yield messages.unknown_key(self.kind, leaf, value, self._where(leaf))

    def _key(self, error: Mapping[str, Any]) -> Key:
        """Return the key of an error of pydantic, without the names of union branches in it."""
        key: Key = ()
        for part in error["loc"]:
            if _is_in(self.values, (*key, part)):
                key = (*key, part)
        return (*key, error["loc"][-1]) if error["type"] == "missing" else key

    def _where(self, key: Key) -> str:
        """Return the place of the last source that has a key, or else a section that it is in."""
        for length in range(len(key), 0, -1):
            for values, where, lines in self.sources:
                if _is_in(values, part := key[:length]):
                    return f"{where}:{lines[part]}" if part in lines else where
        return self.name

    def _line(self, problem: Problem) -> tuple[int, int]:
        """Return a sort key: the mistakes of the file first, from top to bottom."""
        name, _, line = problem.where.rpartition(":")
        return (0, int(line)) if name == self.name and line.isdecimal() else (1, 0)


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return two trees merged key by key; what is no mapping in both is that of ``above``."""
    trees = {n for n in below.keys() & above.keys() if isinstance(below[n], Mapping)}
    both = {n: merge(below[n], above[n]) for n in trees if isinstance(above[n], Mapping)}
    return {**below, **above, **both}


def _is_in(values: object, key: Key) -> bool:
    try:
        reduce(getitem, key, cast("Any", values))
    except (LookupError, TypeError):
        return False
    return True


def locate_beside(
    kind: type[BaseModel], path: Path, section: dict[str, Any], above: Key = ()
) -> None:
    """Replace paths of files beside a YAML file by absolute ones; keys may be dotted."""
    for name, value in section.items():
        key = (*above, *str(name).split("."))
        node = at(kind, key) or {}
        marks = [m["x-beside"] for m in (node, *schema.members(node)) if "x-beside" in m]
        if isinstance(value, dict):
            locate_beside(kind, path, value, key)
        elif marks and isinstance(value, str) and value and section.get(marks[0]) is None:
            place = Path(os.path.abspath(path)).parent / value
            exists = os.path.exists(place) or os.path.exists(f"{place}.gz")  # False for no name
            section[name] = str(place) if exists and not Path(value).is_absolute() else value


def parse_override(text: str, kind: type[Config], key: str) -> Any:
    """Return the value of an override ``key=value``, where ``key`` is one of ``kind``."""
    return _parsed(text, at(kind, tuple(key.split("."))) or {}, f"override {text!r}")


def _parsed(text: str, node: Node, where: str) -> Any:
    """Return the value of an override ``key=value``. It is parsed as YAML, except that a key of
    text takes it unchanged, and ``a,b`` may stand for ``[a,b]``, whose brackets some shells remove.
    """
    name, equals, written = text.partition("=")
    if not equals:
        fix = f"write {name or 'key'}=VALUE"
        if name.endswith((".yaml", ".yml")):
            fix = "a file stands before the overrides"
        raise InvalidConfig([Problem(where, "has no '='", fix)])
    written = written.strip()
    if written in ("null", "~", "") and schema.is_optional(node):
        return None
    takes, is_quoted = schema.types(node), written[:1] in ("'", '"')
    if takes and takes <= {"string", "path"} and not is_quoted:
        return written
    value, _ = parse_yaml(written, where)
    if not isinstance(value, str) or is_quoted or "array" not in schema.types(node):
        return value
    if value in schema.choices(node):
        return value
    words = [m for m in schema.members(node) if m.get("type") == "string"]
    is_free = any(not {"const", "enum"} & word.keys() for word in words)
    several = "," in value or not is_free
    return [parse_yaml(part, where)[0] for part in value.split(",")] if several else value


def _mistyped(value: object, node: Node, key: Key = ()) -> Iterator[tuple[Key, object]]:
    """Yield values that pydantic would convert: true as a number, text as a whole number or a bool,
    numbers as a bool, nothing as the working directory (an unset variable of the shell).
    """
    takes = schema.types(node)
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for part, below in items:
            yield from _mistyped(below, at(node, (part,)) or {}, (*key, part))
        return
    is_truth = isinstance(value, bool)
    as_number = is_truth and bool(takes & _NUMBERS) and not takes & {"boolean", ""}
    as_truth = not is_truth and value is not None and takes == {"boolean"}
    as_whole = isinstance(value, str) and "integer" in takes and takes <= {"integer", "array"}
    if as_number or as_truth or as_whole or (value == "" and takes == {"path"}):
        yield key, value


def _plain(value: Any, node: Node) -> Any:
    """Return a value as YAML has it; nothing below the name of a section is an empty section."""
    if isinstance(value, BaseModel):
        value = to_dict(value)
    if value is None and node and schema.is_section(node):
        return {}
    if isinstance(value, Mapping):
        names = {str(name): below for name, below in value.items()}
        return {name: _plain(below, at(node, (name,)) or {}) for name, below in names.items()}
    if hasattr(value, "item") and hasattr(value, "dtype"):
        return value.item()  # a NumPy scalar, as samplers draw them
    return str(value) if isinstance(value, Path) else value
