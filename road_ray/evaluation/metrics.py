"""Metrics of classification and regression.

Every score is a percentage (accuracy and F1 0 to 100; correlations -100 to 100), as in the GLUE
tables; larger is better.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from road_ray.errors import ConfigError, DataError, did_you_mean

_log = logging.getLogger(__name__)

F1_OF = "f1_of_"
"""Beginning of the metrics that are the F1 of one label, such as ``f1_of_neutral``."""
_CORRELATIONS = ("matthews", "pearson", "spearman")
METRICS = ("accuracy", "f1", "macro_f1", *_CORRELATIONS)
Numbers = NDArray[np.float64]


def score(
    metrics: Sequence[str], predicted: ArrayLike, gold: ArrayLike, labels: Sequence[str] = ()
) -> dict[str, float]:
    """Return ``{metric: percentage}`` of class indices, or of numbers for correlations. ``[N],
    [N]``. ``labels`` are the names of the classes, which ``f1_of_<label>`` needs.

    Raises ``ConfigError`` for an unknown metric, and for the ``f1`` of more than two classes.
    """
    predictions, truth = as_pairs(predicted, gold)
    positive_of = {f"{F1_OF}{label}": number for number, label in enumerate(labels)}
    known = [*METRICS, *positive_of]
    if len(labels) > 2:  # silently, it would be that of the second
        known.remove("f1")
    for name in metrics:
        if name not in known:
            raise ConfigError(
                f"metric {name!r} of {len(labels) or 'no'} labels: "
                f"unknown{did_you_mean(name, known)}\n  known: {', '.join(known)}"
            )
    return {
        name: 100.0 * float(_score(name, predictions, truth, positive_of.get(name, 1)))
        for name in metrics
    }


def _score(name: str, predicted: Numbers, gold: Numbers, positive: int) -> float:
    """Return one score; the F1 of a class is 0 if it is neither predicted nor a label, and a
    correlation if either side is constant.
    """
    if name == "accuracy":
        return float((gold == predicted).mean())
    if name in _CORRELATIONS and _constant(name, predicted, gold):
        return 0.0
    if name in ("pearson", "spearman"):
        from scipy.stats import pearsonr, spearmanr

        correlation = pearsonr if name == "pearson" else spearmanr
        return float(correlation(predicted, gold).statistic)
    from sklearn.metrics import f1_score, matthews_corrcoef

    if name == "matthews":
        return float(matthews_corrcoef(gold, predicted))
    if name == "macro_f1":
        return float(f1_score(gold, predicted, average="macro", zero_division=0.0))
    return float(f1_score(gold == positive, predicted == positive, zero_division=0.0))


def label_balance(predicted: ArrayLike, gold: ArrayLike) -> dict[str, float]:
    """Return what an accuracy is to be compared with: ``majority_accuracy`` of predicting the most
    frequent label for every row, and the number of ``predicted_labels``. ``[N], [N]``.
    """
    predictions, truth = as_pairs(predicted, gold)
    _, counts = np.unique(truth, return_counts=True)
    return {
        "majority_accuracy": 100.0 * float(counts.max()) / len(truth),
        "predicted_labels": float(len(np.unique(predictions))),
    }


def as_pairs(first: ArrayLike, second: ArrayLike) -> tuple[Numbers, Numbers]:
    """Return both as numbers. Raises ``DataError`` unless they are finite and equally many."""
    left, right = as_numbers(first, "predicted"), as_numbers(second, "gold")
    if len(left) != len(right):
        raise DataError(
            f"scores: {len(left)} values on one side and {len(right)} on the other\n"
            "  allowed: one value a row on both sides"
        )
    return left, right


def as_numbers(values: ArrayLike, name: str) -> Numbers:
    """Return the values ``[N]`` as numbers. Raises ``DataError`` for none and for one not
    finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise DataError(f"{name}: shape {list(array.shape)}\n  allowed: [N] with N > 0")
    wrong = np.flatnonzero(~np.isfinite(array))
    if len(wrong):
        raise DataError(
            f"{name}[{wrong[0]}]: {array[wrong[0]]} ({len(wrong)} such values of {len(array)})\n"
            "  allowed: finite numbers\n  fix: check whether the model diverged"
        )
    return array


def _constant(metric: str, predicted: Numbers, gold: Numbers) -> bool:
    """Return True, and log it, if a correlation is undefined."""
    for side, values in (("predicted", predicted), ("gold", gold)):
        if np.all(values == values[0]):
            _log.warning(
                "%s: all %d %s values are %g; the correlation is undefined and counted as 0",
                metric, len(values), side, values[0],
            )  # fmt: skip
            return True
    return False
