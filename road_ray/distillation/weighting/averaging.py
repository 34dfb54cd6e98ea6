"""Rules that count every teacher alike: the mean of logits or of probabilities, and the mean
corrected by the label.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from road_ray.data.features.examples_and_features import UNKNOWN
from road_ray.distillation.weighting.combine import check_shapes, check_targets, combine
from road_ray.errors import ConfigError


def mean(logits: Tensor, targets: Tensor) -> Tensor:
    """Return ones, for a plain mean. ``[M, B, ..., C], [B, ...] -> [M, B, ...]``."""
    check_shapes(logits, targets)
    return torch.ones(logits.shape[:-1], dtype=torch.float32, device=logits.device)


def mean_probabilities(logits: Tensor, targets: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Return logits whose softmax at ``temperature`` is the teachers' mean probability.

    ``[M, B, ..., C], [B, ...] -> [B, ..., C]``. A confident teacher outweighs two uncertain ones;
    in the mean of logits one teacher that excludes a class vetoes it. Regressions: plain mean.
    Source: Liu et al. 2019, MT-DNN-KD (at temperature 1).
    """
    if not 0 < temperature < math.inf:  # false for NaN too
        raise ConfigError(f"distillation.temperature is {temperature}\n  allowed: more than 0")
    check_shapes(logits, targets)
    if targets.is_floating_point():
        return combine(logits, mean(logits, targets))
    logs = (logits.float() / temperature).log_softmax(-1)
    return temperature * (logs.logsumexp(0) - math.log(len(logits)))


def probability_shift(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of the logits; where it is wrong, its largest and the label's logit swapped.

    ``[M, B, ..., C], [B, ...] -> [B, ..., C]``. Unknown labels and regressions: plain mean. Source:
    TextBrewer, ``probability_shift``, applied to the teachers' mean.
    """
    soft = combine(logits, mean(logits, targets))
    if targets.is_floating_point():
        return soft
    targets = targets.to(logits.device)
    check_targets(logits, targets, UNKNOWN)
    top = soft.argmax(-1, keepdim=True)
    label = targets.unsqueeze(-1).where((targets != UNKNOWN).unsqueeze(-1), top)
    shifted = soft.scatter(-1, top, soft.gather(-1, label))
    return torch.scatter(shifted, -1, label, soft.gather(-1, top))
