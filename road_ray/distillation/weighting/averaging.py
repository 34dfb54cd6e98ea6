"""Rules that average something else than logits, or change the mean afterwards."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from road_ray.data.features.types import UNKNOWN
from road_ray.distillation.weighting.combine import check_shapes, check_targets, combine
from road_ray.distillation.weighting.correctness import mean
from road_ray.distillation.weighting.registry import merging
from road_ray.errors import ConfigError


@merging("mean_probabilities")
def mean_probabilities(logits: Tensor, targets: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Logits whose softmax at ``temperature`` is the teachers' mean probability at it.

    ``[M, B, ..., C], [B, ...] -> [B, ..., C]``. One teacher that is sure outvotes two that doubt,
    where the mean of logits lets one that excludes a class veto it. Regressions: plain mean.
    Source: Liu et al. 2019, MT-DNN-KD (at temperature 1).
    """
    if not 0 < temperature < math.inf:  # false for NaN too
        raise ConfigError(f"distillation.temperature is {temperature}\n  allowed: more than 0")
    check_shapes(logits, targets)
    if targets.is_floating_point():
        return combine(logits, mean(logits, targets))
    logs = (logits.float() / temperature).log_softmax(-1)
    return temperature * (logs.logsumexp(0) - math.log(len(logits)))


@merging("probability_shift")
def probability_shift(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean of the logits; where it errs, its largest and that of the gold change places.

    ``[M, B, ..., C], [B, ...] -> [B, ..., C]``. Unknown gold and regressions: plain mean. Source:
    TextBrewer, ``probability_shift``, applied to the teachers' mean.
    """
    soft = combine(logits, mean(logits, targets))
    if targets.is_floating_point():
        return soft
    targets = targets.to(logits.device)
    check_targets(logits, targets, UNKNOWN)
    top = soft.argmax(-1, keepdim=True)
    gold = targets.unsqueeze(-1).where((targets != UNKNOWN).unsqueeze(-1), top)
    shifted = soft.scatter(-1, top, soft.gather(-1, gold))
    return torch.scatter(shifted, -1, gold, soft.gather(-1, top))
