"""Metrics of classification and regression.

Every score is a percentage (accuracy and F1 0 to 100; correlations -100 to 100), as in the GLUE
tables; larger is better.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from road_ray.errors import ConfigError, DataError, did_you_mean

_log = logging.getLogger(__name__)

F1_OF = "f1_of_"
"""Beginning of the metrics that are the F1 of one label, such as ``f1_of_neutral``."""
Numbers = NDArray[np.float64]
Metric = Callable[[ArrayLike, ArrayLike], float]


def accuracy(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Return the share of equal labels. ``[N], [N]``."""
    predictions, truth = as_pairs(predicted, gold)
    return 100.0 * float((truth == predictions).mean())


def f1(predicted: ArrayLike, gold: ArrayLike, positive: int = 1) -> float:
    """Return F1 of one class, or 0 if it is neither predicted nor a label. ``[N], [N]``."""
    from sklearn.metrics import f1_score

    predictions, truth = as_pairs(predicted, gold)
    return 100.0 * float(f1_score(truth == positive, predictions == positive, zero_division=0.0))


def macro_f1(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Return the mean F1 of all classes that are predicted or a label. ``[N], [N]``."""
    from sklearn.metrics import f1_score

    predictions, truth = as_pairs(predicted, gold)
    return 100.0 * float(f1_score(truth, predictions, average="macro", zero_division=0.0))


def matthews(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Return the Matthews correlation, or 0 if either side is constant. ``[N], [N]``."""
    from sklearn.metrics import matthews_corrcoef

    predictions, truth = as_pairs(predicted, gold)
    if _constant("matthews", predictions, truth):
        return 0.0
    return 100.0 * float(matthews_corrcoef(truth, predictions))


def pearson(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Return the linear correlation, or 0 if either side is constant. ``[N], [N]``."""
    from scipy.stats import pearsonr

    predictions, truth = as_pairs(predicted, gold)
    if _constant("pearson", predictions, truth):
        return 0.0
    return 100.0 * float(pearsonr(predictions, truth).statistic)


def spearman(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Return the rank correlation, or 0 if either side is constant. ``[N], [N]``."""
    from scipy.stats import spearmanr

    predictions, truth = as_pairs(predicted, gold)
    if _constant("spearman", predictions, truth):
        return 0.0
    return 100.0 * float(spearmanr(predictions, truth).statistic)


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
}


def score(
    metrics: Sequence[str], predicted: ArrayLike, gold: ArrayLike, labels: Sequence[str] = ()
) -> dict[str, float]:
    """Return ``{metric: percentage}`` of class indices, or of numbers for correlations. ``[N],
    [N]``. ``labels`` are the names of the classes, which ``f1_of_<label>`` needs.

    Raises ``ConfigError`` for an unknown metric, and for the ``f1`` of more than two classes.
    """
    return {name: _metric(name, labels)(predicted, gold) for name in metrics}


def _metric(name: str, labels: Sequence[str]) -> Metric:
    named = {f"{F1_OF}{label}": partial(f1, positive=n) for n, label in enumerate(labels)}
    known = METRICS | named
    if len(labels) > 2:  # silently, it would be that of the second
        del known["f1"]
    if name not in known:
        raise ConfigError(
            f"metric {name!r} of {len(labels) or 'no'} labels: unknown{did_you_mean(name, known)}\n"
            f"  known: {', '.join(known)}"
        )
    return known[name]


def label_balance(predicted: ArrayLike, gold: ArrayLike) -> dict[str, float]:
    """Return what an accuracy is to be compared with: ``majority_accuracy`` of predicting the most
    frequent label for every row, and the number of ``predicted_labels``. ``[N], [N]``.
    """
    predictions, truth = as_pairs(predicted, gold)
    _, counts = np.unique(truth, return_counts=True)
    majority = 100.0 * float(counts.max()) / len(truth)
    return {
        "majority_accuracy": majority,
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
