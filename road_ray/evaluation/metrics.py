"""Metrics of classification and regression, summaries over seeds, and a paired test of two runs.

Every score is a percentage (accuracy and F1 0 to 100; correlations -100 to 100), as in the GLUE
tables; larger is better.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from road_ray.errors import ConfigError, DataError, did_you_mean

_log = logging.getLogger(__name__)

Numbers = NDArray[np.float64]
Metric = Callable[[ArrayLike, ArrayLike], float]


def accuracy(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Return the share of equal labels. ``[N], [N]``."""
    from sklearn.metrics import accuracy_score

    predictions, truth = _paired(predicted, gold)
    return 100.0 * float(accuracy_score(truth, predictions))


def f1(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Return F1 of class 1, or 0 if class 1 is neither predicted nor a label. ``[N], [N]``."""
    from sklearn.metrics import f1_score

    predictions, truth = _paired(predicted, gold)
    return 100.0 * float(f1_score(truth == 1, predictions == 1, zero_division=0.0))


def matthews(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Return the Matthews correlation, or 0 if either side is constant. ``[N], [N]``."""
    from sklearn.metrics import matthews_corrcoef

    predictions, truth = _paired(predicted, gold)
    if _constant("matthews", predictions, truth):
        return 0.0
    return 100.0 * float(matthews_corrcoef(truth, predictions))


def pearson(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Return the linear correlation, or 0 if either side is constant. ``[N], [N]``."""
    from scipy.stats import pearsonr

    predictions, truth = _paired(predicted, gold)
    if _constant("pearson", predictions, truth):
        return 0.0
    return 100.0 * float(pearsonr(predictions, truth).statistic)


def spearman(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Return the rank correlation, or 0 if either side is constant. ``[N], [N]``."""
    from scipy.stats import spearmanr

    predictions, truth = _paired(predicted, gold)
    if _constant("spearman", predictions, truth):
        return 0.0
    return 100.0 * float(spearmanr(predictions, truth).statistic)


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
}


def score(metrics: Sequence[str], predicted: ArrayLike, gold: ArrayLike) -> dict[str, float]:
    """Return ``{metric: percentage}`` of class indices, or of numbers for correlations. ``[N],
    [N]``.
    """
    for name in metrics:
        if name not in METRICS:
            hint = did_you_mean(name, METRICS)
            raise ConfigError(f"unknown metric {name!r}{hint}\n  known: {', '.join(METRICS)}")
    return {name: METRICS[name](predicted, gold) for name in metrics}


@dataclass(frozen=True)
class Summary:
    """Statistics of one score over seeds; ``deviation`` (n - 1) is None for a single value."""

    count: int
    mean: float
    deviation: float | None
    median: float
    best: float


def summary(values: Sequence[float]) -> Summary:
    """Return mean, sample deviation, median and best (largest) of one score over seeds."""
    numbers = _numbers(values, "values to summarise")
    return Summary(
        count=len(numbers),
        mean=float(numbers.mean()),
        deviation=float(numbers.std(ddof=1)) if len(numbers) > 1 else None,
        median=float(np.median(numbers)),
        best=float(numbers.max()),
    )


def means(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each score that all runs have, and beside it ``<score>_deviation``, which
    a single run does not have.
    """
    averages: dict[str, float] = {}
    for name in runs[0]:
        if all(name in run for run in runs):
            spread = summary([run[name] for run in runs])
            averages[name] = spread.mean
            if spread.deviation is not None:
                averages[f"{name}_deviation"] = spread.deviation
    return averages


@dataclass(frozen=True)
class PairedTest:
    """Two-sided paired t-test: mean of ``left - right``, t statistic, p value, number of pairs."""

    difference: float
    statistic: float
    p_value: float
    pairs: int


def paired_test(left: Sequence[float], right: Sequence[float]) -> PairedTest:
    """Test if two runs differ, paired by seed (``left[i]`` and ``right[i]`` share a seed).

    The t statistic is undefined if all differences are equal: zero differences give p = 1; equal
    non-zero differences give an infinite statistic and p = 0, and a log message that this is no
    evidence.
    """
    from scipy.stats import ttest_rel

    first, second = _paired(left, right)
    if len(first) < 2:
        raise DataError(
            f"paired test: {len(first)} pair of scores\n"
            "  allowed: at least 2\n  fix: run more seeds"
        )
    gaps = first - second
    mean = float(gaps.mean())
    if np.all(gaps == gaps[0]):
        if mean == 0.0:
            return PairedTest(0.0, 0.0, 1.0, len(gaps))
        _log.warning(
            "paired test: all %d differences are %g; p = 0 is no evidence", len(gaps), mean
        )
        return PairedTest(mean, float(np.copysign(np.inf, mean)), 0.0, len(gaps))
    result = ttest_rel(first, second)
    return PairedTest(mean, float(result.statistic), float(result.pvalue), len(gaps))


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


def _paired(first: ArrayLike, second: ArrayLike) -> tuple[Numbers, Numbers]:
    left, right = _numbers(first, "predicted"), _numbers(second, "gold")
    if len(left) != len(right):
        raise DataError(
            f"scores: {len(left)} values on one side and {len(right)} on the other\n"
            "  allowed: one value a row on both sides"
        )
    return left, right


def _numbers(values: ArrayLike, name: str) -> Numbers:
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


def pareto_front(scores: Sequence[tuple[float, ...]]) -> list[int]:
    """Return the indices of the scores (larger is better) that no other score dominates; with one
    metric, the first of the best.
    """
    if scores and len(scores[0]) == 1:
        return [max(range(len(scores)), key=lambda number: scores[number])]

    def dominates(other: tuple[float, ...], candidate: tuple[float, ...]) -> bool:
        return other != candidate and all(a >= b for a, b in zip(other, candidate, strict=True))

    return [
        number
        for number, candidate in enumerate(scores)
        if not any(dominates(other, candidate) for other in scores)
    ]
