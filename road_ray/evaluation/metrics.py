"""Metrics of classification and regression.

Every score is a percentage (accuracy and F1 0 to 100; correlations -100 to 100), as in the GLUE
tables; larger is better. A new metric is a function and an entry of ``METRICS``, or one of any
module as ``package.module:name``, where the part behind the colon names the result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from road_ray.data.task_and_dataset import own_metric
from road_ray.errors import ConfigError, DataError, did_you_mean
from road_ray.system.own_names import is_own

_log = logging.getLogger(__name__)

F1_OF = "f1_of_"
"""Beginning of the metrics that are the F1 of one label, such as ``f1_of_neutral``."""
Numbers = NDArray[np.float64]


def _f1(gold: Numbers, predicted: Numbers, positive: int = 1) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(gold == positive, predicted == positive, zero_division=0.0))


def _macro_f1(gold: Numbers, predicted: Numbers) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, average="macro", zero_division=0.0))


def _matthews(gold: Numbers, predicted: Numbers) -> float:
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(gold, predicted))


def _pearson(gold: Numbers, predicted: Numbers) -> float:
    from scipy.stats import pearsonr

    return float(pearsonr(predicted, gold).statistic)


def _spearman(gold: Numbers, predicted: Numbers) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(predicted, gold).statistic)


METRICS: dict[str, Callable[[Numbers, Numbers], float]] = {
    "accuracy": lambda gold, predicted: float((gold == predicted).mean()),
    "f1": _f1,
    "macro_f1": _macro_f1,
    "matthews": _matthews,
    "pearson": _pearson,
    "spearman": _spearman,
}
_CORRELATIONS = ("matthews", "pearson", "spearman")


def score(
    metrics: Sequence[str], predicted: ArrayLike, gold: ArrayLike, labels: Sequence[str] = ()
) -> dict[str, float]:
    """Return ``{metric: percentage}`` of class indices, or of numbers for correlations. ``[N],
    [N]``. ``labels`` are the names of the classes, which ``f1_of_<label>`` needs. The F1 of a class
    is 0 if it is neither predicted nor a label, and a correlation if either side is constant.

    Raises ``ConfigError`` for an unknown metric, and for the ``f1`` of more than two classes.
    """
    predictions, truth = as_pairs(predicted, gold)
    known = METRICS | {
        f"{F1_OF}{label}": partial(_f1, positive=number) for number, label in enumerate(labels)
    }
    if len(labels) > 2:  # silently, it would be that of the second
        del known["f1"]
    result = {}
    for name in metrics:
        if is_own(name) and name not in known:
            result[name.rpartition(":")[2]] = 100.0 * float(own_metric(name)(truth, predictions))
            continue
        if name not in known:
            raise ConfigError(
                f"metric {name!r} of {len(labels) or 'no'} labels: "
                f"unknown{did_you_mean(name, known)}\n  known: {', '.join(known)}"
            )
        if name in _CORRELATIONS and (np.ptp(predictions) == 0 or np.ptp(truth) == 0):
            _log.warning("%s: all predicted or all gold values are equal; counted as 0", name)
            result[name] = 0.0
        else:
            result[name] = 100.0 * known[name](truth, predictions)
    return result


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
    left, right = as_numbers(first), as_numbers(second)
    if len(left) != len(right):
        raise DataError(f"scores: {len(left)} values on one side and {len(right)} on the other")
    return left, right


def as_numbers(values: ArrayLike) -> Numbers:
    """Return the values ``[N]`` as numbers. Raises ``DataError`` for none and for one not finite:
    then the model has diverged.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0 or not np.isfinite(array).all():
        raise DataError(f"scores: {array}\n  allowed: one or more finite numbers")
    return array
