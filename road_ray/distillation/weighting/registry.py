"""Rules by name, and their options bound and checked before anything starts."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar, get_args

import torch
from torch import Tensor

from road_ray.errors import ConfigError, did_you_mean

AllWrong = Literal["scale", "mean", "drop"]
SpanCorrectness = Literal["independent", "joint"]


class Weighting(Protocol):
    """A rule with its options bound: ``[M, B, ..., C], [B, ...] -> [M, B, ...]``."""

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Merge:
    """A rule, its options bound, that averages something else than logits: ``[M, B, ..., C], [B,
    ...] -> [B, ..., C]``.
    """

    function: Callable[[Tensor, Tensor], Tensor]

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        return self.function(logits, targets)


Rule = Weighting | Merge

_Function = TypeVar("_Function", bound=Callable[..., Tensor])

WEIGHTINGS: dict[str, Callable[..., Tensor]] = {}
MERGES: dict[str, Callable[..., Tensor]] = {}


def weighting(name: str) -> Callable[[_Function], _Function]:
    """A decorator that enters a rule of weights under ``name``; the contract tests then hold it to
    its law.
    """
    return functools.partial(_enter, WEIGHTINGS, name)


def merging(name: str) -> Callable[[_Function], _Function]:
    """The same for a rule that gives soft logits."""
    return functools.partial(_enter, MERGES, name)


def _enter(rules: dict[str, Callable[..., Tensor]], name: str, rule: _Function) -> _Function:
    rules[name] = rule
    return rule


def known_rules() -> tuple[str, ...]:
    """Return the names of all rules, those of weights first."""
    return (*WEIGHTINGS, *MERGES)


def options_of(name: str) -> tuple[str, ...]:
    """The names of the options that the rule ``name`` takes. Raises ``ConfigError`` naming the
    nearest rule.
    """
    parameters = inspect.signature(_named(name)).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def resolve(name: str, **options: object) -> Rule:
    """The rule ``name`` with its options bound. Raises ``ConfigError`` for a name, option or value
    that is not known.
    """
    known = options_of(name)
    for option in options:
        if option not in known:
            raise ConfigError(
                unknown_name(f"weighting.{option}", f"option of {name!r}", option, known)
            )
    function = functools.partial(_named(name), **options)
    # A wrong value fails here, not in step 1.
    function(torch.zeros(1, 1, 2), torch.zeros(1, dtype=torch.long))
    return function if name in WEIGHTINGS else Merge(function)


def _named(name: str) -> Callable[..., Tensor]:
    rules = WEIGHTINGS | MERGES
    if name not in rules:
        raise ConfigError(unknown_name("weighting.rule", "rule", name, rules))
    return rules[name]


def check_choice(key: str, value: str, kind: object) -> None:
    """Raises ``ConfigError`` unless ``value`` is one of the literals of ``kind``."""
    if value not in get_args(kind):
        raise ConfigError(unknown_name(f"weighting.{key}", "value", value, get_args(kind)))


def unknown_name(key: str, what: str, name: str, known: Iterable[str]) -> str:
    """What is said of a name that nobody knows, with the nearest that somebody does."""
    names = list(known)
    hint = did_you_mean(name, names)
    return f"{key}: unknown {what} {name!r}{hint}\n  known: {', '.join(names) or '(none)'}"
