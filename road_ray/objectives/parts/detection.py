"""Replaced-token detection: the loss of a detector, and its metrics."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from road_ray.objectives.base import Metrics

DETECTION_METRICS = tuple(
    f"detection_{name}" for name in ("auc", "accuracy", "recall", "precision", "specificity")
)
"""Names of what ``detection_metrics`` returns."""


def detection_losses(scores: Tensor, replaced: Tensor) -> Tensor:
    """Return the cross-entropy of each token, ``[B, L]``; the label is 1 where it is replaced."""
    return functional.binary_cross_entropy_with_logits(scores, replaced.float(), reduction="none")


@torch.no_grad()
def detection_metrics(scores: Tensor, replaced: Tensor, counted: Tensor) -> Metrics:
    """Return the metrics of the detection over ``counted`` tokens: ``[B, L]`` each.

    The area under the ROC curve is 0.5 at chance and rises long before any score crosses 0, the
    threshold of accuracy, recall and precision. Recall is the accuracy on replaced tokens,
    ``specificity`` that on originals.
    """
    score, fake = scores[counted], replaced[counted]
    predicted = score > 0
    hits = (predicted & fake).sum()
    count = counted.sum()
    return {
        "detection_auc": (area_under_curve(score, fake) * count, count),
        "detection_accuracy": ((predicted == fake).sum(), count),
        "detection_recall": (hits, fake.sum()),
        "detection_precision": (hits, predicted.sum()),
        "detection_specificity": ((~predicted & ~fake).sum(), (~fake).sum()),
    }


def area_under_curve(scores: Tensor, positive: Tensor) -> Tensor:
    """Return the probability that a positive scores above a negative: ``[N], [N] -> []``.

    It is 0.5 where one class is missing. Computed by the rank sum; ties are ranked in order.
    """
    ranks = scores.argsort().argsort() + 1  # whole numbers: exact on every device
    num_positive = positive.sum()
    num_negative = len(scores) - num_positive
    above = ranks[positive].sum() - num_positive * (num_positive + 1) // 2
    pairs = num_positive * num_negative
    return torch.where(pairs > 0, above / pairs.clamp(min=1), 0.5)
