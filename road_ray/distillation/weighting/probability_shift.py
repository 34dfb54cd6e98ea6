"""Rule that corrects a wrong mean of the teachers by the label: the two logits are swapped."""

from __future__ import annotations

import torch
from torch import Tensor

from road_ray.data.features.examples_and_features import UNKNOWN
from road_ray.distillation.weighting.averaging import mean
from road_ray.distillation.weighting.combine import check_targets, combine
from road_ray.distillation.weighting.registry import merging


@merging("probability_shift")
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
