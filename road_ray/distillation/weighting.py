"""How much each teacher counts for each example, and the weighted mean of their logits. Add a rule
here.

A rule is a pure function ``(logits [M, B, ..., C], targets [B, ...]) -> weights [M, B, ...]``.
Classification has no trailing axes; spans are ``[M, B, 2, L]`` with targets ``[B, 2]`` (start and
end; the position is the class), so one code serves both. Weights are non-negative, finite and, for
the rules of the paper, sum to M over the teachers.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Literal, Protocol, TypeVar, get_args

import torch
from torch import Tensor

from road_ray.data.features import UNKNOWN
from road_ray.errors import ConfigError, DataError

AllWrong = Literal["scale", "mean", "drop"]
SpanCorrectness = Literal["independent", "joint"]


class Weighting(Protocol):
    """A rule with its options bound: ``[M, B, ..., C], [B, ...] -> [M, B, ...]``."""

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor: ...


_Rule = TypeVar("_Rule", bound=Callable[..., Tensor])

WEIGHTINGS: dict[str, Callable[..., Tensor]] = {}


def weighting(name: str) -> Callable[[_Rule], _Rule]:
    """A decorator that enters a rule under ``name``; the contract tests then hold it to the law
    above.
    """

    def register(rule: _Rule) -> _Rule:
        WEIGHTINGS[name] = rule
        return rule

    return register


def options_of(name: str) -> tuple[str, ...]:
    """The names of the options that the rule ``name`` takes. Raises ``ConfigError`` naming the
    nearest rule.
    """
    if name not in WEIGHTINGS:
        raise ConfigError(_unknown("weighting.rule", "rule", name, WEIGHTINGS))
    parameters = inspect.signature(WEIGHTINGS[name]).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def resolve(name: str, **options: object) -> Weighting:
    """The rule ``name`` with its options bound. Raises ``ConfigError`` for a name, option or value
    that is not known.
    """
    known = options_of(name)
    for option in options:
        if option not in known:
            raise ConfigError(_unknown(f"weighting.{option}", f"option of {name!r}", option, known))
    rule = functools.partial(WEIGHTINGS[name], **options)
    rule(
        torch.zeros(1, 1, 2), torch.zeros(1, dtype=torch.long)
    )  # a wrong value fails here, not in step 1
    return rule


@weighting("mean")
def mean(logits: Tensor, targets: Tensor) -> Tensor:
    """Ones: every teacher counts the same. ``[M, B, ..., C], [B, ...] -> [M, B, ...]``."""
    check_shapes(logits, targets)
    return torch.ones(logits.shape[:-1], dtype=torch.float32, device=logits.device)


@weighting("correctness")
def correctness(
    logits: Tensor,
    targets: Tensor,
    *,
    wrong: float = 0.75,
    all_wrong: AllWrong = "scale",
    span_correctness: SpanCorrectness = "independent",
) -> Tensor:
    """``wrong`` for a teacher that errs, the rest of M shared by those that are right.

    ``[M, B, ..., C], [B, ...] -> [M, B, ...]``.

    Sums to M, unless every teacher errs: then ``wrong`` each (``scale``, the literal reading), ones
    (``mean``) or zeros (``drop``: no distillation for this example). ``joint`` calls a teacher
    right only if it is right on every trailing axis and gives those axes the same weight. An
    unknown target (-100) and a regression have no right or wrong: plain mean, our choice. Source:
    ROaD part 1, Algorithm 2.
    """
    _check_options(wrong, all_wrong, span_correctness)
    ones = mean(logits, targets)
    if targets.is_floating_point():
        return ones
    targets = targets.to(logits.device)
    right, known = _right(logits, targets), targets != UNKNOWN
    if span_correctness == "joint" and targets.ndim > 1:
        trailing = tuple(range(1, targets.ndim))
        right = right.all(tuple(a + 1 for a in trailing), keepdim=True).expand_as(right)
        known = known.all(trailing, keepdim=True).expand_as(known)
    num_teachers, count = len(logits), right.sum(0)
    boost = (num_teachers - (num_teachers - count) * wrong) / count.clamp(min=1)
    nobody = {"scale": wrong, "mean": 1.0, "drop": 0.0}[all_wrong]
    weights = torch.where(right, boost, torch.where(count > 0, wrong, nobody))
    return torch.where(known, weights, ones)


def num_right(logits: Tensor, targets: Tensor) -> Tensor:
    """How many teachers have their first largest logit at the target. ``[M, B, ..., C], [B, ...] ->
    [B, ...]``.
    """
    check_shapes(logits, targets)
    return _right(logits, targets.to(logits.device)).sum(0)


def combine(logits: Tensor, weights: Tensor) -> Tensor:
    """The weighted logits ``sum_m w_m z_m / M`` in fp32. ``[M, B, ..., C], [M, B, ...] -> [B, ...,
    C]``.

    Weights ``[M, B]`` or ``[M]`` count for all trailing axes. Mask positions after this, never
    before. Source: ROaD part 1, Algorithm 2.
    """
    if weights.shape != logits.shape[: weights.ndim] or not 0 < weights.ndim < logits.ndim:
        raise DataError(
            f"weights {list(weights.shape)} do not fit the teachers' logits {list(logits.shape)}\n"
            f"  allowed: {list(logits.shape[:-1])} (teachers, batch, ...)"
        )
    weights = weights.to(logits.device, torch.float32)
    weights = weights.reshape(*weights.shape, *[1] * (logits.ndim - weights.ndim))
    # A teacher that does not count must not spoil the sum with 0 * -inf.
    weighted = torch.where(weights == 0, 0.0, weights * logits.float())
    return weighted.sum(0) / len(logits)


def check_shapes(logits: Tensor, targets: Tensor) -> None:
    """Raises ``DataError`` unless logits are ``[M, B, ..., C]`` and targets ``[B, ...]``; nothing
    is broadcast.
    """
    if logits.ndim < 3 or targets.shape != logits.shape[1:-1] or not len(logits):
        raise DataError(
            f"teacher logits {list(logits.shape)} and targets {list(targets.shape)} do not fit\n"
            "  allowed: logits [M, B, C] and targets [B], or logits [M, B, 2, L] and targets [B, 2]"
        )


def _right(logits: Tensor, targets: Tensor) -> Tensor:
    classes = logits.shape[-1]
    misfit = (targets != UNKNOWN) & ((targets < 0) | (targets >= classes))
    if bool(misfit.any()):
        raise DataError(
            f"target {int(targets[misfit][0])} is outside the teachers' classes 0..{classes - 1}\n"
            f"  fix: correct the gold, or mark it as unknown with {UNKNOWN}"
        )
    return logits.argmax(-1) == targets


def _check_options(wrong: float, all_wrong: str, span_correctness: str) -> None:
    if not 0.0 <= wrong <= 1.0:  # false for NaN too
        raise ConfigError(
            f"weighting.wrong is {wrong}\n  allowed: 0 to 1 (ROaD: 0.75; 1: plain mean)"
        )
    for key, value, kind in (
        ("all_wrong", all_wrong, AllWrong),
        ("span_correctness", span_correctness, SpanCorrectness),
    ):
        if value not in get_args(kind):
            raise ConfigError(_unknown(f"weighting.{key}", "value", value, get_args(kind)))


def _unknown(key: str, what: str, name: str, known: object) -> str:
    names = list(known)  # type: ignore[call-overload]
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{key}: unknown {what} {name!r}{hint}\n  known: {', '.join(names) or '(none)'}"
