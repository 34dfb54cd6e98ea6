"""Rules by the correctness of the teachers: ROaD's Algorithm 2 and its limit."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from road_ray.data.features.examples_and_features import UNKNOWN
from road_ray.distillation.weighting.averaging import mean
from road_ray.distillation.weighting.combine import check_shapes, check_targets
from road_ray.errors import ConfigError

AllWrong = Literal["scale", "mean", "drop"]
SpanCorrectness = Literal["independent", "joint"]


def correctness(
    logits: Tensor,
    targets: Tensor,
    *,
    wrong: float = 0.75,
    all_wrong: AllWrong = "scale",
    span_correctness: SpanCorrectness = "independent",
) -> Tensor:
    """Return the weight ``wrong`` for each wrong teacher; the right ones share the rest of M.

    ``[M, B, ..., C], [B, ...] -> [M, B, ...]``. They sum to M, unless all teachers are wrong: then
    they are ``wrong`` (``scale``, the literal reading), ones (``mean``) or zeros (``drop``: no
    distillation for this example). With ``joint`` a teacher is right only if it is right at every
    known label of the example, and all trailing axes get the same weight. Unknown targets (-100)
    and regressions: plain mean, our choice. Source: ROaD part 1, Algorithm 2.
    """
    _check_options(wrong, all_wrong, span_correctness)
    ones = mean(logits, targets)
    if targets.is_floating_point():
        return ones
    targets = targets.to(logits.device)
    right, known = _right(logits, targets), targets != UNKNOWN
    if span_correctness == "joint" and targets.ndim > 1:
        trailing = tuple(range(1, targets.ndim))
        right = (right | ~known).all(tuple(a + 1 for a in trailing), keepdim=True).expand_as(right)
        known = known.any(trailing, keepdim=True).expand_as(known)
    num_teachers, count = len(logits), right.sum(0)
    boost = (num_teachers - (num_teachers - count) * wrong) / count.clamp(min=1)
    none_right = {"scale": wrong, "mean": 1.0, "drop": 0.0}[all_wrong]
    weights = torch.where(right, boost, torch.where(count > 0, wrong, none_right))
    return torch.where(known, weights, ones)


def correct_only(
    logits: Tensor,
    targets: Tensor,
    *,
    all_wrong: AllWrong = "drop",
    span_correctness: SpanCorrectness = "independent",
) -> Tensor:
    """Return weights that share M among the right teachers; those of the others are 0.
    ``[M, B, ..., C], [B, ...] -> [M, B, ...]``.

    The limit of ``correctness`` at ``wrong = 0``; where no teacher is right, ``scale`` is ``drop``.
    """
    return correctness(
        logits, targets, wrong=0.0, all_wrong=all_wrong, span_correctness=span_correctness
    )


def num_right(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the number of teachers whose first largest logit is at the target.
    ``[M, B, ..., C], [B, ...] -> [B, ...]``.
    """
    check_shapes(logits, targets)
    return _right(logits, targets.to(logits.device)).sum(0)


def _right(logits: Tensor, targets: Tensor) -> Tensor:
    check_targets(logits, targets, UNKNOWN)
    return logits.argmax(-1) == targets


def _check_options(wrong: float, all_wrong: str, span_correctness: str) -> None:
    if not 0.0 <= wrong <= 1.0:  # false for NaN too
        raise ConfigError(
            f"weighting.wrong is {wrong}\n  allowed: 0 to 1 (ROaD: 0.75; 1: plain mean)"
        )
    check_choice("all_wrong", all_wrong, AllWrong)
    check_choice("span_correctness", span_correctness, SpanCorrectness)


def check_choice(key: str, value: str, kind: object) -> None:
    """Raise ``ConfigError`` unless ``value`` is one of the literals of ``kind``."""
    if value not in get_args(kind):
        allowed = ", ".join(get_args(kind))
        raise ConfigError(f"weighting.{key} is {value!r}\n  allowed: {allowed}")
