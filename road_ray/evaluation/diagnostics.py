"""Details of an evaluation beyond its metrics, for pages: confusion matrix, calibration, accuracy
by coverage, and the scores of SQuAD 2.0 at every no-answer threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import SpanExample
from road_ray.evaluation.calibration import calibration, coverage, probabilities
from road_ray.evaluation.spans import SpanPrediction
from road_ray.evaluation.squad import raw_scores

_MOST_LABELS = 20
_THRESHOLDS = 60


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


def span_diagnostics(
    examples: Sequence[SpanExample], predictions: Sequence[SpanPrediction], threshold: float
) -> dict[str, Any]:
    """Return rows, the threshold in use and, if some questions have no answer, ``thresholds``:
    ``[threshold, exact, f1, exact with answer, exact without]``, in percent.
    """
    diagnostics: dict[str, Any] = {"rows": len(examples)}
    if not examples or all(example.answers for example in examples):
        return diagnostics
    raw = np.array(
        [
            raw_scores(example, answer.text)
            for example, answer in zip(examples, predictions, strict=True)
        ]
    )
    unanswerable = np.array([not example.answers for example in examples])
    odds = np.array([prediction.null_odds for prediction in predictions])
    abstained = unanswerable[:, None].astype(float)  # both scores of abstaining
    low, high = np.quantile(odds, [0.01, 0.99])
    places = np.linspace(min(low, threshold), max(high, threshold), _THRESHOLDS)
    curve = []
    for place in sorted({*places.tolist(), threshold}):
        scores = 100.0 * np.where((odds > place)[:, None], abstained, raw)
        exact = scores[:, 0]
        has = float(exact[~unanswerable].mean()) if not unanswerable.all() else 0.0
        none = float(exact[unanswerable].mean())
        row = [place, *scores.mean(0).tolist(), has, none]
        curve.append([round(float(value), 3) for value in row])
    return diagnostics | {"threshold": round(threshold, 3), "thresholds": curve}
