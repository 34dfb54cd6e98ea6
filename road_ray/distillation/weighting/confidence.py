"""Rules by the confidence of the teachers: cross-entropy with the label, or entropy."""

from __future__ import annotations

import torch
from torch import Tensor

from road_ray.data.features.examples_and_features import UNKNOWN
from road_ray.distillation.weighting.averaging import mean
from road_ray.distillation.weighting.combine import check_targets
from road_ray.distillation.weighting.correctness import SpanCorrectness, check_choice

_MAX_CROSS_ENTROPY = 1e4  # bound, because that of a class that is not allowed is infinite


def confidence(
    logits: Tensor, targets: Tensor, *, span_correctness: SpanCorrectness = "independent"
) -> Tensor:
    """Return weights that grow with the label's probability: ``M (1 - softmax_m(CE_m)) / (M - 1)``.

    ``[M, B, ..., C], [B, ...] -> [M, B, ...]``. ``joint`` takes the mean cross-entropy over the
    known labels of the example. One teacher, unknown labels and regressions: plain mean. The paper
    weights losses; here the weights are of logits, or of losses with
    ``distillation.average_loss``. Source: Zhang et al. 2022 (CA-MKD), its code.
    """
    check_choice("span_correctness", span_correctness, SpanCorrectness)
    ones = mean(logits, targets)
    if targets.is_floating_point() or len(logits) == 1:
        return ones
    targets = targets.to(logits.device)
    check_targets(logits, targets, UNKNOWN)
    known = targets != UNKNOWN
    at = targets.where(known, 0).expand(logits.shape[:-1]).unsqueeze(-1)
    losses = -logits.float().log_softmax(-1).gather(-1, at).squeeze(-1)
    losses = losses.clamp(max=_MAX_CROSS_ENTROPY).where(known, 0.0)
    if span_correctness == "joint" and targets.ndim > 1:
        trailing = tuple(range(1, targets.ndim))
        total = losses.sum(tuple(a + 1 for a in trailing), keepdim=True)
        losses = (total / known.sum(trailing, keepdim=True).clamp(min=1)).expand_as(losses)
        known = known.any(trailing, keepdim=True).expand_as(known)
    weights = (1 - losses.softmax(0)) * (len(logits) / (len(logits) - 1))
    return torch.where(known, weights, ones)


def entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return weights that fall with the teacher's entropy: ``M (1 - H_m / sum H) / (M - 1)``.

    ``[M, B, ..., C], [B, ...] -> [M, B, ...]``; labels are not used. One teacher, zero entropy of
    all and regressions: plain mean. Source: EBKD as in the code of CA-MKD, scaled
    here to sum to M.
    """
    ones = mean(logits, targets)
    if targets.is_floating_point() or len(logits) == 1:
        return ones
    logs = logits.float().log_softmax(-1)
    probabilities = logs.exp()
    # A class that is not allowed adds 0; computed: 0 * -inf.
    entropies = -torch.where(probabilities > 0, probabilities * logs, 0.0).sum(-1).clamp(max=0)
    total = entropies.sum(0)
    weights = (1 - entropies / total.clamp(min=torch.finfo(torch.float32).tiny)) * (
        len(logits) / (len(logits) - 1)
    )
    return torch.where(total > 0, weights, ones)
