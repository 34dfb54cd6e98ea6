"""Scores of rows with any number of labels, and the threshold of each label's probability.

Scores are percentages. A label is predicted where its probability is above its threshold, which is
0.5 where none was tuned: there the sign of the logit decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from road_ray.evaluation.metrics import F1_OF

Labels = NDArray[np.integer[Any]]
Thresholds = Mapping[str, float]
UNTUNED = 0.5
LABEL_THRESHOLDS = "label_thresholds"  # entry of a model's record


def probabilities_of(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the probability of each label: the sigmoid of its logit."""
    probabilities: NDArray[np.float64] = expit(logits.astype(np.float64))
    return probabilities


def predicted_sets(
    probabilities: NDArray[np.float64], labels: Sequence[str], thresholds: Thresholds | None
) -> NDArray[np.bool_]:
    """Return which labels are predicted, of probabilities ``[..., C]``."""
    limits = np.array([(thresholds or {}).get(label, UNTUNED) for label in labels])
    predicted: NDArray[np.bool_] = probabilities > limits
    return predicted


def best_thresholds(
    probabilities: NDArray[np.float64], gold: Labels, labels: Sequence[str]
) -> dict[str, float]:
    """Return the threshold with the best F1 of each label on these (dev) rows, ``[N, C]`` both.

    It lies midway between two probabilities of rows. The nearest to 0.5 is taken among equals; 0.5
    itself where it is as good, and for a label that no row has.
    """
    return {
        label: _best(probabilities[:, column], gold[:, column] == 1)
        for column, label in enumerate(labels)
    }


def _best(probabilities: NDArray[np.float64], gold: NDArray[np.bool_]) -> float:
    values = np.unique(probabilities)
    limits = np.array([UNTUNED, *((values[1:] + values[:-1]) / 2), values[0] / 2])
    order = np.sort(probabilities)
    positives = np.sort(probabilities[gold])
    num_predicted = len(order) - np.searchsorted(order, limits, "right")
    hits = len(positives) - np.searchsorted(positives, limits, "right")
    f1 = 2 * hits / np.maximum(num_predicted + len(positives), 1)
    best = limits[f1 == f1.max()]
    return float(best[np.abs(best - UNTUNED).argmin()])


def label_set_scores(
    metrics: Sequence[str],
    probabilities: NDArray[np.float64],
    predicted: NDArray[np.bool_],
    gold: Labels,
    labels: Sequence[str],
) -> dict[str, float]:
    """Return the ``metrics`` of predicted labels, ``[N, C]`` all, as scikit-learn computes them.

    A row that rightly has no label counts as 1 in ``samples_f1``; the F1 of a label that is neither
    predicted nor of a row is 0.
    """
    from sklearn.metrics import f1_score, label_ranking_average_precision_score

    def f1(average: str | None, empty: float = 0.0) -> Any:
        return f1_score(gold, predicted, average=average, zero_division=empty)

    scores = {}
    for name in metrics:
        if name.startswith(F1_OF):
            score = f1(None)[labels.index(name.removeprefix(F1_OF))]
        elif name == "subset_accuracy":
            score = (predicted == gold).all(-1).mean()
        elif name == "lrap":
            score = label_ranking_average_precision_score(gold, probabilities)
        else:
            score = f1(name.removesuffix("_f1"), float(name == "samples_f1"))
        scores[name] = 100.0 * float(score)
    return scores


def label_set_balance(predicted: NDArray[np.bool_], gold: Labels) -> dict[str, float]:
    """Return what the scores are to be compared with: ``majority_accuracy``, the share of rows with
    the most frequent set of labels, ``majority_micro_f1`` of predicting the most frequent label for
    every row; and the number of ``predicted_labels``. ``[N, C], [N, C]``.
    """
    _, counts = np.unique(gold, axis=0, return_counts=True)
    hits = int(gold.sum(0).max())
    return {
        "majority_accuracy": 100.0 * float(counts.max()) / len(gold),
        "majority_micro_f1": 200.0 * hits / (len(gold) + int(gold.sum())),
        "predicted_labels": float(predicted.any(0).sum()),
    }


def table_of_labels(
    predicted: NDArray[np.bool_], gold: Labels, labels: Sequence[str], thresholds: Thresholds | None
) -> dict[str, dict[str, float]]:
    """Return precision, recall, F1, rows, predicted rows and threshold of each label."""
    from sklearn.metrics import precision_recall_fscore_support

    columns = precision_recall_fscore_support(gold, predicted, average=None, zero_division=0.0)
    return {
        label: {
            "rows": int(columns[3][number]),
            "predicted": int(predicted[:, number].sum()),
            "precision": round(100.0 * float(columns[0][number]), 2),
            "recall": round(100.0 * float(columns[1][number]), 2),
            "f1": round(100.0 * float(columns[2][number]), 2),
            "threshold": round((thresholds or {}).get(label, UNTUNED), 4),
        }
        for number, label in enumerate(labels)
    }
