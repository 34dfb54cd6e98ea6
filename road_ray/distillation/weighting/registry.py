"""Registry of the rules by name; their options are bound and checked before training."""

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
    """A rule with its options bound that returns soft logits:
    ``[M, B, ..., C], [B, ...] -> [B, ..., C]``.
    """

    function: Callable[[Tensor, Tensor], Tensor]

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        return self.function(logits, targets)


Rule = Weighting | Merge

_Function = TypeVar("_Function", bound=Callable[..., Tensor])

WEIGHTINGS: dict[str, Callable[..., Tensor]] = {}
MERGES: dict[str, Callable[..., Tensor]] = {}


def weighting(name: str) -> Callable[[_Function], _Function]:
    """Register a rule of weights under ``name``; the contract tests then cover it. A decorator."""
    return functools.partial(_register, WEIGHTINGS, name)


def merging(name: str) -> Callable[[_Function], _Function]:
    """Register a rule that returns soft logits under ``name``. A decorator."""
    return functools.partial(_register, MERGES, name)


def _register(rules: dict[str, Callable[..., Tensor]], name: str, rule: _Function) -> _Function:
    rules[name] = rule
    return rule


def default_rule(num_teachers: int) -> str:
    """Return the default rule for ``num_teachers`` teachers of a row: ROaD's for several; for one
    the mean, which is plain knowledge distillation.
    """
    return "mean" if num_teachers == 1 else "correctness"


def known_rules() -> tuple[str, ...]:
    """Return the names of all rules, those of weights first."""
    return (*WEIGHTINGS, *MERGES)


def options_of(name: str) -> tuple[str, ...]:
    """Return the names of the options of the rule ``name``. Raises ``ConfigError`` with the nearest
    name if there is none.
    """
    parameters = inspect.signature(_rule(name)).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def resolve(name: str, **options: object) -> Rule:
    """Return the rule ``name`` with its options bound. Raises ``ConfigError`` for an unknown name,
    option or value.
    """
    known = options_of(name)
    for option in options:
        if option not in known:
            raise ConfigError(
                unknown_name(f"weighting.{option}", f"option of {name!r}", option, known)
            )
    function = functools.partial(_rule(name), **options)
    # An invalid value fails here, not in step 1.
    function(torch.zeros(1, 1, 2), torch.zeros(1, dtype=torch.long))
    return function if name in WEIGHTINGS else Merge(function)


def _rule(name: str) -> Callable[..., Tensor]:
    rules = WEIGHTINGS | MERGES
    if name not in rules:
        raise ConfigError(unknown_name("weighting.rule", "rule", name, rules))
    return rules[name]


def check_choice(key: str, value: str, kind: object) -> None:
    """Raise ``ConfigError`` unless ``value`` is one of the literals of ``kind``."""
    if value not in get_args(kind):
        raise ConfigError(unknown_name(f"weighting.{key}", "value", value, get_args(kind)))


def unknown_name(key: str, kind: str, name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown name, with the nearest known one."""
    names = list(known)
    hint = did_you_mean(name, names)
    return f"{key}: unknown {kind} {name!r}{hint}\n  known: {', '.join(names) or '(none)'}"
