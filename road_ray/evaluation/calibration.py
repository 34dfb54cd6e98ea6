"""Calibration of class probabilities: the temperature of a model's logits, the expected calibration
error, the accuracy of a model that abstains where it is unsure, and the confusion of classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from road_ray.evaluation.metrics import probabilities_of

_BINS = 15
_BOUNDS = (0.05, 20.0)
_MOST_LABELS = 20


def probabilities(
    logits: NDArray[np.floating[Any]], temperature: float = 1.0
) -> NDArray[np.float64]:
    """Return ``softmax(logits / temperature)`` in float64. ``[..., C] -> [..., C]``."""
    from scipy.special import softmax

    shares: NDArray[np.float64] = softmax(logits.astype(np.float64) / temperature, axis=-1)
    return shares


def fit_temperature(logits: NDArray[np.floating[Any]], gold: NDArray[np.integer[Any]]) -> float:
    """Return the temperature T, 0.05 to 20, whose ``softmax(logits / T)`` gives the labels the
    smallest mean negative log-likelihood: ``[N, C], [N]``. With several labels a row, 0 or 1 in
    ``[N, C]``, that of ``sigmoid(logits / T)`` over all of them.

    That mean is convex in 1/T, so a search in one dimension finds the minimum; it is at the lower
    bound where all rows are right. It changes no prediction. Source: Guo et al. 2017, section 4.2.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    def loss(log_t: float) -> float:
        scaled = logits.astype(np.float64) / math.exp(log_t)
        if gold.ndim == 2:
            return float(np.logaddexp(0, np.where(gold == 1, -scaled, scaled)).mean())
        return -float(log_softmax(scaled, axis=-1)[np.arange(len(gold)), gold].mean())

    found = minimize_scalar(loss, bounds=np.log(_BOUNDS), method="bounded", options={"xatol": 1e-6})
    return math.exp(found.x)


def calibration(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the expected calibration error and each bin that has rows: mean confidence, accuracy,
    rows. ``[N], [N]``.

    ``ECE = 100 * sum_b n_b / N * |accuracy_b - mean confidence_b|`` over 15 bins of equal width,
    in percentage points (Guo et al. 2017, equation 3).
    """
    places = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    bins, error = [], 0.0
    for place in range(_BINS):
        inside = places == place
        if count := int(inside.sum()):
            mean, accuracy = float(confidence[inside].mean()), float(right[inside].mean())
            bins.append([round(mean, 4), round(accuracy, 4), count])
            error += count / len(right) * abs(mean - accuracy)
    return {"ece": round(100 * error, 2), "bins": bins}


def coverage(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> list[list[float]]:
    """Return what a model answers that abstains below a confidence: at most 20 rows of smallest
    confidence, percentage of rows answered and accuracy on these, all rows first. ``[N], [N]``.
    """
    curve = []
    for limit in np.unique(np.quantile(confidence, np.arange(20) / 20, method="lower")):
        answered = confidence >= limit
        shares = (100 * float(answered.mean()), 100 * float(right[answered].mean()))
        curve.append([float(limit), *(round(share, 2) for share in shares)])
    return curve


def calibration_metrics(
    logits: NDArray[np.floating[Any]], gold: NDArray[np.integer[Any]], temperature: float
) -> dict[str, float]:
    """Return the temperature, and ``ece`` before and ``ece_calibrated`` with it: of the most
    probable classes, or of several labels that of each label's probability with whether it is
    there.
    """
    found = {"temperature": temperature}
    for name, t in (("ece", 1.0), ("ece_calibrated", temperature)):
        if gold.ndim == 2:
            confidence, right = probabilities_of(logits, t).ravel(), gold.ravel() == 1
        else:
            confidence, right = probabilities(logits, t).max(-1), logits.argmax(-1) == gold
        found[name] = float(calibration(confidence, right)["ece"])
    return found


def class_diagnostics(
    logits: NDArray[np.float32],
    gold: NDArray[np.integer[Any]],
    labels: Sequence[str],
    temperature: float = 1.0,
) -> dict[str, Any]:
    """Return rows, labels, ``confusion[gold][predicted]`` (up to 20 labels), ``calibration`` and
    ``coverage`` of class logits ``[N, C]`` at a temperature, with labels ``[N]``.
    """
    predicted, confidence = logits.argmax(-1), probabilities(logits, temperature).max(-1)
    diagnostics: dict[str, Any] = {
        "rows": len(gold),
        "calibration": calibration(confidence, predicted == gold),
        "coverage": coverage(confidence, predicted == gold),
    }
    if len(labels) <= _MOST_LABELS:
        confusion = np.zeros((len(labels), len(labels)), dtype=int)
        np.add.at(confusion, (gold, predicted), 1)
        diagnostics |= {"labels": list(labels), "confusion": confusion.tolist()}
    return diagnostics
