"""Soft logits from teacher logits: the weighted mean, and the application of a rule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from road_ray.errors import DataError


class Merge(partial[Tensor]):
    """A rule with its options bound that returns soft logits:
    ``[M, B, ..., C], [B, ...] -> [B, ..., C]``.
    """


Rule = Callable[[Tensor, Tensor], Tensor]
"""A ``Merge``, or a rule with its options bound that returns weights:
``[M, B, ..., C], [B, ...] -> [M, B, ...]``.
"""


class SoftTargets(NamedTuple):
    """Soft targets of a batch. Where no teacher counts, ``keep`` is false and there is no loss."""

    logits: Tensor  # [B, ..., C], fp32
    keep: Tensor  # [B, ...] bool
    weights: Tensor | None  # [M, B, ...]; None for a rule without weights


def soften(
    rule: Rule, logits: Tensor, targets: Tensor, allowed: Tensor | None = None
) -> SoftTargets:
    """Combine the teachers' logits by a rule. ``[M, B, ..., C], [B, ...] -> [B, ..., C]``.

    The rule ignores classes outside ``allowed`` (broadcast to ``[B, ..., C]``: no padding, no
    question). Its weights are applied to the raw logits, which the student's loss masks; a merging
    rule returns ``-inf`` there. Source of that order: ROaD part 1, Algorithm 2, our reading.
    """
    targets = targets.to(logits.device)
    masked = mask_disallowed(logits, allowed)
    if isinstance(rule, Merge):
        every = torch.ones(targets.shape, dtype=torch.bool, device=logits.device)
        return SoftTargets(rule(masked, targets), every, None)
    weights = rule(masked, targets)
    return SoftTargets(combine(logits, weights), (weights != 0).any(0), weights)


def mask_disallowed(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """Return the logits with ``-inf`` outside ``allowed``. ``[M, B, ..., C] -> [M, B, ..., C]``."""
    if allowed is None:
        return logits
    return logits.float().masked_fill(~allowed.to(logits.device), -torch.inf)


def combine(logits: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted logits ``sum_m w_m z_m / M`` in fp32.
    ``[M, B, ..., C], [M, B, ...] -> [B, ..., C]``.

    Weights ``[M, B]`` or ``[M]`` hold for all trailing axes. Mask positions after this, never
    before. Source: ROaD part 1, Algorithm 2.
    """
    if weights.shape != logits.shape[: weights.ndim] or not 0 < weights.ndim < logits.ndim:
        raise DataError(
            f"weights {list(weights.shape)} do not fit the teachers' logits {list(logits.shape)}\n"
            f"  allowed: {list(logits.shape[:-1])} (teachers, batch, ...)"
        )
    weights = weights.to(logits.device, torch.float32)
    weights = weights.reshape(*weights.shape, *[1] * (logits.ndim - weights.ndim))
    # A teacher of weight 0 must not add 0 * -inf.
    weighted = torch.where(weights == 0, 0.0, weights * logits.float())
    return weighted.sum(0) / len(logits)


def check_shapes(logits: Tensor, targets: Tensor) -> None:
    """Raise ``DataError`` unless logits are ``[M, B, ..., C]`` and targets ``[B, ...]``, without
    broadcasting.
    """
    if logits.ndim < 3 or targets.shape != logits.shape[1:-1] or not len(logits):
        raise DataError(
            f"teacher logits {list(logits.shape)} and targets {list(targets.shape)} do not fit\n"
            "  allowed: logits [M, B, C] and targets [B], or logits [M, B, 2, L] and targets [B, 2]"
        )


def check_targets(logits: Tensor, targets: Tensor, unknown: int) -> None:
    """Raise ``DataError`` for a label that is neither a class nor ``unknown``."""
    classes = logits.shape[-1]
    invalid = (targets != unknown) & ((targets < 0) | (targets >= classes))
    if bool(invalid.any()):
        raise DataError(
            f"target {int(targets[invalid][0])} is outside the teachers' classes 0..{classes - 1}\n"
            f"  fix: correct the label, or mark it as unknown with {unknown}"
        )
