"""Messages for mistakes in a configuration: range, choices, nearest name, remedy.

``merge.py`` merges and validates, ``yaml_files/reader.py`` reads files with their line numbers.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from road_ray.config.allowed_values import allowed_values, format_value
from road_ray.config.dotted_keys import Field, Key, field_at, format_key, known_keys
from road_ray.config.key_explanation import UNSET, KeyInfo, key_info
from road_ray.config.keys_of_other_libraries import NAMES_ELSEWHERE
from road_ray.config.url_secrets import masked
from road_ray.errors import ConfigError, Problem, nearest

_MOST_SHOWN = 20  # mistakes; a file with more is probably not a configuration
_NOTHING_HAPPENED = "nothing was started; no file was changed"


class InvalidConfig(ConfigError):
    """All mistakes of one configuration together; ``problems`` lists them, ``str`` renders them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(
            Problem(masked(problem.where), masked(problem.message), masked(problem.remedy))
            for problem in problems
        )
        super().__init__(self.problems)  # the only argument, so that it survives pickling

    def __str__(self) -> str:
        blocks = [f"error[{self.kind}] {problem}" for problem in self.problems[:_MOST_SHOWN]]
        hidden = len(self.problems) - len(blocks)
        count = f"{len(self.problems)} mistakes; " if len(self.problems) > 1 else ""
        count += f"{hidden} of them are not shown; " if hidden else ""
        return "\n".join([*blocks, f"  {count}{_NOTHING_HAPPENED}"])


def unknown_key(kind: type[BaseModel], key: Key, value: object, where: str) -> Problem:
    """Return the problem of a key that does not exist, with the nearest one that does."""
    noun = "section" if isinstance(value, Mapping) else "key"
    head = format_key(key) if noun == "section" else f"{format_key(key)} = {format_value(value)}"
    parent = max((key[:n] for n in range(len(key)) if field_at(kind, key[:n])), key=len)
    names = (field_at(kind, parent) or Field(kind)).keys
    place = f"in section {format_key(parent)!r}" if parent else "at the top level"
    known = f"no such {noun}\n    allowed {place}: {', '.join(names) or 'no keys'}"
    near = _nearest(kind, key, parent, names)
    meant = field_at(kind, tuple(near.split("."))) if near else None
    if near and meant and meant.meaning:
        known += f"\n    meaning: {near}: {meant.meaning}"
    remedy = (
        f"did you mean {near!r}?"
        if near
        else f"remove {format_key(key)!r}, or use a name from above"
    )
    if not parent and "overrides" in names:  # a file of a sweep
        remedy = f"did you mean {near!r}? " if near else ""
        remedy += f"a key of the verb belongs under 'overrides': {{{format_key(key)}: ...}}"
    return Problem(where, f"{head}\n    {known}", remedy)


def missing_key(kind: type[BaseModel], key: Key, where: str) -> Problem:
    """Return the problem of a required key that is not set."""
    field = field_at(kind, key)
    detail = _detail(field) if field else ""
    return Problem(where, f"{format_key(key)} is not set{detail}", f"set {format_key(key)}")


def invalid_value(
    kind: type[BaseModel],
    key: Key,
    error: Mapping[str, Any],
    where: str,
    others: Sequence[str] = (),
) -> Problem:
    """Return the problem of a value that its field refuses; pydantic gives ``error``. ``others``
    are the names beside the last one of ``key``, told where the field's own message has a remedy.
    """
    field, value = field_at(kind, key), error["input"]
    own_words = error["type"] in ("value_error", "assertion_error")
    if own_words and (field is None or field.sections):
        text, _, remedy = message_of(error).partition("\n    fix: ")
        if remedy and others:
            remedy += f"; {format_key(key[:-1])} has: {', '.join(others)}"
        name = f"{format_key(key)}: " if key else ""
        return Problem(where, f"{name}{text}", remedy or "change one of the values it names")
    reason = f"\n    {message_of(error)}" if own_words or field is None else ""
    if error["type"] == "union_tag_invalid":
        return _wrong_tag(key, error["ctx"], where)
    head = f"{format_key(key)} = {format_value(value)}"
    if isinstance(value, Mapping):
        head = f"{format_key(key)} is given as a section ({', '.join(map(str, value))})"
    if field is None:
        return Problem(where, head + reason)
    # A field's own message is more precise than a description of its type.
    lists_values = own_words and ("allowed:" in reason or "known:" in reason)
    detail = _meaning(field) if lists_values else _detail(field)
    remedy = _remedy(field, value, _default(key_info(kind, key)))
    return Problem(where, head + reason + detail, remedy)


def _wrong_tag(key: Key, context: Mapping[str, Any], where: str) -> Problem:
    """Return the problem of a section of an unknown kind (``objective.name``)."""
    name, tags = format_key((*key, context["discriminator"].strip("'"))), context["expected_tags"]
    near = nearest(context["tag"], tags.replace("'", "").split(", "))
    message = f"{name} = {format_value(context['tag'])}\n    allowed: {tags}"
    return Problem(where, message, f"did you mean {near!r}?" if near else "use one of these")


def message_of(error: Mapping[str, Any]) -> str:
    """Return the message of an error of pydantic, without the kind of the exception before it."""
    return str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")


def _detail(field: Field) -> str:
    return f"\n    allowed: {allowed_values(field)}{_meaning(field)}"


def _meaning(field: Field) -> str:
    return f"\n    meaning: {field.meaning}" if field.meaning else ""


def _remedy(field: Field, value: object, default: str) -> str:
    members = field.members
    if field.sections:
        return f"write its keys below it, e.g. {next(iter(field.keys), '...')}"
    if isinstance(value, str) and field.lists:
        return f"write a list: [{value}]"
    if bool in members:
        return "write true or false (yes, no, on and off are plain text in YAML 1.2)"
    if isinstance(value, bool) and (float in members or int in members):
        return "write a number; true and false are not numbers" + default
    if isinstance(value, int | float) and (str in members or Path in members):
        return f'put it in quotes: "{value}"'
    near = nearest(str(value), [str(c) for c in field.choices])
    if near:
        return f"did you mean {near!r}?"
    if isinstance(value, str) and int in members and value.strip().lstrip("+-").isdecimal():
        return "write a number without quotes" + default
    takes_numbers = (float in members or int in members) and str not in members
    if isinstance(value, str) and takes_numbers and not field.choices:
        return "write a number" + default
    return "use a value that is allowed" + default


def _default(info: KeyInfo | None) -> str:
    if info is None or info.default is None or info.default is UNSET:
        return ""
    return f" (default: {format_value(info.default)})"


def _nearest(kind: type[BaseModel], key: Key, parent: Key, siblings: Sequence[str]) -> str | None:
    """Return the key that was probably meant: the same name elsewhere, a similar sibling, or a
    similar key anywhere.
    """
    name, last = format_key(key), str(key[-1])
    last = NAMES_ELSEWHERE.get(nearest(last, NAMES_ELSEWHERE, 0.9) or last, last)
    everywhere = [k for k in known_keys(kind) if k != name]
    same_name = [k for k in everywhere if k.rpartition(".")[2] == last]
    if same_name:
        return max(same_name, key=lambda k: difflib.SequenceMatcher(None, k, name).ratio())
    near = nearest(str(key[len(parent)]), siblings)
    sibling = format_key((*parent, near)) if near else None
    if sibling and len(key) == len(parent) + 1:
        return sibling
    by_last = {k.rpartition(".")[2]: k for k in reversed(everywhere)}
    match = nearest(name, everywhere, 0.75)
    like = nearest(last, by_last, 0.75)
    return match or (by_last[like] if like else sibling)
