"""Rules that ask how sure the teachers are: of the gold, or of anything."""

from __future__ import annotations

import torch
from torch import Tensor

from road_ray.data.features.types import UNKNOWN
from road_ray.distillation.weighting.combine import check_targets
from road_ray.distillation.weighting.correctness import mean
from road_ray.distillation.weighting.registry import SpanCorrectness, check_choice, weighting

_MOST = 1e4  # a cross-entropy beyond it (a class that is not allowed: infinite) is as bad


@weighting("confidence")
def confidence(
    logits: Tensor, targets: Tensor, *, span_correctness: SpanCorrectness = "independent"
) -> Tensor:
    """More for a teacher that gives the gold more probability: ``M (1 - softmax_m(CE_m)) / (M -
    1)``.

    ``[M, B, ..., C], [B, ...] -> [M, B, ...]``. ``joint`` takes the mean cross-entropy over what is
    known of the example. One teacher, unknown gold and regressions: plain mean. The paper weighs
    losses with it; here it weighs logits, or losses too with ``distillation.average_loss``. Source:
    Zhang et al. 2022 (CA-MKD), its code.
    """
    check_choice("span_correctness", span_correctness, SpanCorrectness)
    ones = mean(logits, targets)
    if targets.is_floating_point() or len(logits) == 1:
        return ones
    targets = targets.to(logits.device)
    check_targets(logits, targets, UNKNOWN)
    known = targets != UNKNOWN
    at = targets.where(known, 0).expand(logits.shape[:-1]).unsqueeze(-1)
    surprise = -logits.float().log_softmax(-1).gather(-1, at).squeeze(-1)
    surprise = surprise.clamp(max=_MOST).where(known, 0.0)
    if span_correctness == "joint" and targets.ndim > 1:
        trailing = tuple(range(1, targets.ndim))
        total = surprise.sum(tuple(a + 1 for a in trailing), keepdim=True)
        surprise = (total / known.sum(trailing, keepdim=True).clamp(min=1)).expand_as(surprise)
        known = known.any(trailing, keepdim=True).expand_as(known)
    weights = (1 - surprise.softmax(0)) * (len(logits) / (len(logits) - 1))
    return torch.where(known, weights, ones)


@weighting("entropy")
def entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """More for a teacher that is sure of anything: ``M (1 - H_m / sum H) / (M - 1)``.

    ``[M, B, ..., C], [B, ...] -> [M, B, ...]``; the gold is not looked at. One teacher, teachers
    without any doubt and regressions: plain mean. Source: EBKD as in the code of CA-MKD, scaled
    here to sum to M.
    """
    ones = mean(logits, targets)
    if targets.is_floating_point() or len(logits) == 1:
        return ones
    logs = logits.float().log_softmax(-1)
    chances = logs.exp()
    # What is not allowed adds nothing; computed it is 0 * -inf.
    doubt = -torch.where(chances > 0, chances * logs, 0.0).sum(-1).clamp(max=0)
    total = doubt.sum(0)
    weights = (1 - doubt / total.clamp(min=torch.finfo(torch.float32).tiny)) * (
        len(logits) / (len(logits) - 1)
    )
    return torch.where(total > 0, weights, ones)
