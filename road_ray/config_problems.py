"""What is wrong with a configuration, in words to act on: range, choices, nearest name, remedy.

Here lives the telling; `config` does the merging and the validation, `yaml_lines` knows the lines.
"""

from __future__ import annotations

import difflib
import json
import math
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from road_ray.errors import ConfigError, Problem

Key = tuple[str | int, ...]  # ("optimizer", "peak_lr"); a number is a place in a list

_LONGEST_SHOWN = 80  # characters of a value repeated in a message
_LISTS = (list, tuple, set, frozenset, Sequence)
_MAPPINGS = (dict, Mapping)
_PLAIN = {bool: "true or false", str: "text", Path: "a path", Any: "any value"}
_NOTHING_HAPPENED = "nothing was started; no file was changed"


class InvalidConfig(ConfigError):
    """All mistakes of one configuration together; ``problems`` lists them, ``str`` renders them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(tuple(problems))  # the only argument, so that it survives pickling
        self.problems = tuple(problems)

    def __str__(self) -> str:
        blocks = [f"error[{self.kind}] {problem}" for problem in self.problems]
        count = f"{len(blocks)} mistakes; " if len(blocks) > 1 else ""
        return "\n".join([*blocks, f"  {count}{_NOTHING_HAPPENED}"])


@dataclass(frozen=True)
class Field:
    """What may stand at one key: its type, its constraints, and the declaration it came from."""

    annotation: Any
    metadata: tuple[Any, ...] = ()
    info: FieldInfo | None = None

    @property
    def members(self) -> tuple[Any, ...]:
        """The alternatives of the type, without ``None`` and without ``Annotated``."""
        return tuple(m for m, _ in _members(self.annotation) if m is not type(None))

    @property
    def optional(self) -> bool:
        return any(member is type(None) for member, _ in _members(self.annotation))

    @property
    def section(self) -> type[BaseModel] | None:
        """The configuration class that stands here, if one does."""
        return next((m for m in self.members if _is_section(m)), None)


def dotted(key: Key) -> str:
    """``optimizer.groups[2].name`` for ``("optimizer", "groups", 2, "name")``."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def shown(value: Any) -> str:
    """A value as YAML writes it, cut to one short line."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else "-.inf" if value < 0 else ".inf"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def field_at(kind: type[BaseModel], key: Key) -> Field | None:
    """The declaration that governs a key, or None where the configuration has no such key."""
    field = Field(kind)
    for part in key:
        below = (_step(member, part) for member in field.members)
        found = next((f for f in below if f is not None), None)
        if found is None:
            return None
        field = found
    return field


def allowed(field: Field) -> str:
    """The values a field takes, in words: ``0 <= value <= 1``, ``true or false``."""
    pairs = _members(field.annotation, field.metadata)
    texts = [
        _allowed_member(member, bounds) for member, bounds in pairs if member is not type(None)
    ]
    return " or ".join(dict.fromkeys([*texts, "null"] if field.optional else texts))


def known_keys(kind: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every dotted key of a configuration, sections included."""
    for name in kind.model_fields:
        yield prefix + name
        below = field_at(kind, (name,))
        if below and below.section and below.section is not kind:
            yield from known_keys(below.section, f"{prefix}{name}.")


def unknown(kind: type[BaseModel], key: Key, value: Any, where: str) -> Problem:
    """The problem of a key that does not exist, with the nearest one that does."""
    noun = "section" if isinstance(value, Mapping) else "key"
    head = dotted(key) if noun == "section" else f"{dotted(key)} = {shown(value)}"
    parent = max((key[:n] for n in range(len(key)) if field_at(kind, key[:n])), key=len)
    section = (field_at(kind, parent) or Field(kind)).section
    names = list(section.model_fields) if section else []
    place = f"section {dotted(parent)!r}" if parent else "the top level"
    known = f"no such {noun}\n    allowed: in {place}: {', '.join(names) or 'no keys'}"
    near = _nearest(kind, key, parent, names)
    remedy = (
        f"did you mean {near!r}?" if near else f"remove {dotted(key)!r}, or use a name from above"
    )
    return Problem(where, f"{head}\n    {known}", remedy)


def missing(kind: type[BaseModel], key: Key, where: str) -> Problem:
    """The problem of a required key that nobody set."""
    field = field_at(kind, key)
    detail = _detail(field) if field else ""
    return Problem(where, f"{dotted(key)} is not set{detail}", f"set {dotted(key)}")


def unfit(kind: type[BaseModel], key: Key, error: Mapping[str, Any], where: str) -> Problem:
    """The problem of a value that its field refuses (``error``: one entry of pydantic's list)."""
    field, value = field_at(kind, key), error["input"]
    own_words = error["type"] in ("value_error", "assertion_error")
    if own_words and (field is None or field.section):
        name = dotted(key) or kind.__name__
        return Problem(where, f"{name}: {_reason(error)}", "change one of the values it names")
    reason = f"\n    {_reason(error)}" if own_words or field is None else ""
    head = f"{dotted(key)} is a section of its own" if isinstance(value, Mapping) else ""
    head = head or f"{dotted(key)} = {shown(value)}"
    if field is None:
        return Problem(where, head + reason)
    return Problem(where, head + reason + _detail(field), _remedy(field, value))


def _reason(error: Mapping[str, Any]) -> str:
    return str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")


def _detail(field: Field) -> str:
    lines = f"\n    allowed: {allowed(field)}"
    if field.info and field.info.description:
        lines += f"\n    meaning: {' '.join(field.info.description.split())}"
    return lines


def _remedy(field: Field, value: Any) -> str:
    members = field.members
    if field.section:
        return f"write its keys below it, e.g. {next(iter(field.section.model_fields), '...')}"
    if bool in members:
        return "write true or false (yes, no, on and off are plain text in YAML 1.2)"
    if isinstance(value, bool) and (float in members or int in members):
        return "write a number; true and false are not numbers" + _default(field)
    if isinstance(value, int | float) and (str in members or Path in members):
        return f'put it in quotes: "{value}"'
    choices = [c for m in members if get_origin(m) is Literal for c in get_args(m)]
    near = difflib.get_close_matches(str(value), [str(c) for c in choices], n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    if isinstance(value, str) and int in members:
        return "write a number without quotes" + _default(field)
    return "use a value that is allowed" + _default(field)


def _default(field: Field) -> str:
    info = field.info
    if info is None or info.is_required() or info.default_factory or info.default is None:
        return ""
    return f" (default: {shown(info.default)})"


def _nearest(kind: type[BaseModel], key: Key, parent: Key, siblings: Sequence[str]) -> str | None:
    """The likeliest meant key: the same name elsewhere, a near sibling, a near key anywhere."""
    everywhere = list(known_keys(kind))
    prefix = f"{dotted(parent)}." if parent else ""
    wrong, last = str(key[len(parent)]), str(key[-1])
    same_name = [k for k in everywhere if k.rpartition(".")[2] == last]
    near_siblings = difflib.get_close_matches(wrong, siblings, n=1)
    if near_siblings:
        rest = ".".join([near_siblings[0], *map(str, key[len(parent) + 1 :])])
        exact = prefix + rest
        if exact in everywhere or len(key) == len(parent) + 1:
            return exact
    if same_name:
        return difflib.get_close_matches(dotted(key), same_name, n=1, cutoff=0)[0]
    by_last = {k.rpartition(".")[2]: k for k in everywhere}
    near = difflib.get_close_matches(last, by_last, n=1, cutoff=0.75)
    return by_last[near[0]] if near else prefix + near_siblings[0] if near_siblings else None


def _members(
    annotation: Any, metadata: tuple[Any, ...] = ()
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Each alternative of a type with the constraints that stand on it."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        yield from _members(inner, (*metadata, *more))
    elif origin in (Union, types.UnionType):
        for arg in get_args(annotation):
            yield from _members(arg, metadata)
    else:
        yield annotation, metadata


def _step(annotation: Any, part: str | int) -> Field | None:
    """The field one step below a type: a key of a section or a dict, an item of a list."""
    if _is_section(annotation):
        info = annotation.model_fields.get(part)
        return Field(info.annotation, tuple(info.metadata), info) if info else None
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if isinstance(part, str):
        return Field(arguments[1]) if origin in _MAPPINGS and len(arguments) == 2 else None
    if origin is tuple and Ellipsis not in arguments:
        return Field(arguments[part]) if part < len(arguments) else None
    return Field(arguments[0]) if origin in _LISTS and arguments else None


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _allowed_member(annotation: Any, metadata: tuple[Any, ...]) -> str:
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if origin is Literal:
        return " or ".join(shown(choice) for choice in arguments)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(shown(choice.value) for choice in annotation)
    if _is_section(annotation):
        return f"a section with the keys {', '.join(annotation.model_fields) or '(none)'}"
    if origin in _LISTS or origin in _MAPPINGS:
        return _allowed_collection(origin, arguments) + _length(metadata)
    if annotation in (int, float):
        noun = "a whole number" if annotation is int else "a finite number"
        span = _range(metadata)
        return span if span and annotation is float else f"{noun}, {span}" if span else noun
    return _PLAIN.get(annotation, getattr(annotation, "__name__", str(annotation))) + _length(
        metadata
    )


def _allowed_collection(origin: Any, arguments: tuple[Any, ...]) -> str:
    if origin in _MAPPINGS:
        return "a mapping of names" + (f" to: {allowed(Field(arguments[1]))}" if arguments else "")
    if origin is tuple and arguments and Ellipsis not in arguments:
        items = ", ".join(allowed(Field(argument)) for argument in arguments)
        return f"a list of {len(arguments)}: [{items}]"
    return "a list" + (f" of: {allowed(Field(arguments[0]))}" if arguments else "")


def _range(metadata: tuple[Any, ...]) -> str:
    """``0 <= value <= 1``, ``value > 0``, or nothing where there is no bound."""
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
