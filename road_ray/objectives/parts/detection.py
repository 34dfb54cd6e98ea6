"""Replaced or original: the loss of a detector, and how well it does."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def detection_losses(scores: Tensor, replaced: Tensor) -> Tensor:
    """Cross-entropy of each token, ``[B, L]``; the label is 1 where a token is replaced."""
    return functional.binary_cross_entropy_with_logits(scores, replaced.float(), reduction="none")


@torch.no_grad()
def detection_gauges(
    scores: Tensor, replaced: Tensor, counted: Tensor
) -> dict[str, tuple[Tensor, Tensor]]:
    """Health of the detection over ``counted`` tokens. The area under the ROC curve is 0.5 at
    chance and rises long before any score crosses 0, where accuracy, recall and precision are
    taken. Recall is the accuracy on replaced tokens, ``specificity`` that on originals.
    """
    score, fake = scores[counted], replaced[counted]
    said = score > 0
    hits = (said & fake).sum()
    count = counted.sum()
    return {
        "detection_auc": (area_under_curve(score, fake) * count, count),
        "detection_accuracy": ((said == fake).sum(), count),
        "detection_recall": (hits, fake.sum()),
        "detection_precision": (hits, said.sum()),
        "detection_specificity": ((~said & ~fake).sum(), (~fake).sum()),
    }


def area_under_curve(scores: Tensor, positive: Tensor) -> Tensor:
    """Chance that a positive scores above a negative: ``[N], [N] -> []``; 0.5 when one kind is
    missing.

    By the rank sum; tied scores are ranked as they come.
    """
    ranks = scores.argsort().argsort().double() + 1
    num_positive = positive.sum().double()
    num_negative = len(scores) - num_positive
    above = ranks[positive].sum() - num_positive * (num_positive + 1) / 2
    pairs = num_positive * num_negative
    return torch.where(pairs > 0, above / pairs.clamp(min=1), 0.5)
