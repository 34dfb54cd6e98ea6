"""Replaced-token detection: the loss of a discriminator, and its metrics."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from road_ray.objectives.base import Metrics

DETECTION_METRICS = tuple(
    f"detection_{name}" for name in ("auc", "accuracy", "recall", "precision", "specificity")
)
"""Names of the metrics that ``detection_metrics`` returns."""


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
    predicted = scores > 0
    fake, original = counted & replaced, counted & ~replaced
    hits, rejected, count = (predicted & fake).sum(), (~predicted & original).sum(), counted.sum()
    return {
        "detection_auc": (area_under_curve(scores, replaced, counted) * count, count),
        "detection_accuracy": (hits + rejected, count),
        "detection_recall": (hits, fake.sum()),
        "detection_precision": (hits, (predicted & counted).sum()),
        "detection_specificity": (rejected, original.sum()),
    }


def area_under_curve(scores: Tensor, positive: Tensor, counted: Tensor) -> Tensor:
    """Return the probability that a positive scores above a negative, among the ``counted``:
    ``[B, L], [B, L], [B, L] -> []``.

    It is 0.5 if one class is missing. It is computed by the rank sum; ties are ranked in order.
    """
    # The others get the highest ranks, which are not read.
    order = scores.masked_fill(~counted, torch.inf).flatten().argsort(stable=True)
    ranks = torch.empty_like(order)
    ranks.scatter_(0, order, torch.arange(1, len(order) + 1, device=order.device))
    positive = (positive & counted).flatten()
    num_positive = positive.sum()  # whole numbers: exact on every device
    num_negative = counted.sum() - num_positive
    above = (ranks * positive).sum() - num_positive * (num_positive + 1) // 2
    pairs = num_positive * num_negative
    return torch.where(pairs > 0, above / pairs.clamp(min=1), 0.5)
