"""Statistics over seeds: mean and deviation, intervals, paired tests, their correction, power."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt

import numpy as np

from road_ray.errors import DataError
from road_ray.evaluation.metrics import as_numbers, as_pairs

_log = logging.getLogger(__name__)

_MOST_PAIRS = 100_000


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
    numbers = as_numbers(values, "values to summarise")
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

    first, second = as_pairs(left, right)
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


@dataclass(frozen=True)
class Difference:
    """Paired difference of two methods. ``effect_size`` is Cohen's d of the differences, None where
    all are equal; ``needed_pairs`` is the number of seeds for a power of 80%, None where the effect
    is undefined or too small for 100,000.
    """

    difference: float
    low: float
    high: float
    p_value: float
    effect_size: float | None
    pairs: int
    needed_pairs: int | None


def interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Return the confidence interval of the mean by the t distribution; None for a single value."""
    from scipy.stats import t

    seeds = summary(values)
    if seeds.deviation is None:
        return None
    half = float(t.ppf((1 + level) / 2, seeds.count - 1)) * seeds.deviation / sqrt(seeds.count)
    return seeds.mean - half, seeds.mean + half


def compare(left: Sequence[float], right: Sequence[float]) -> Difference:
    """Return the paired difference ``left - right``; both are in the order of the seeds.

    Raises ``DataError`` for fewer than two pairs.
    """
    test = paired_test(left, right)
    gaps = np.asarray(left, dtype=float) - np.asarray(right, dtype=float)
    bounds = interval(gaps.tolist())
    assert bounds is not None, "paired_test needs two pairs"
    deviation = float(gaps.std(ddof=1))
    effect = test.difference / deviation if deviation > 0 else None
    needed = None if effect is None else needed_pairs(effect)
    return Difference(test.difference, *bounds, test.p_value, effect, test.pairs, needed)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for the number of tests. Source: Holm 1979."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def power(effect_size: float, pairs: int, alpha: float = 0.05) -> float:
    """Return the power of a two-sided paired t-test, by the noncentral t distribution."""
    from scipy.stats import nct, t

    critical = float(t.ppf(1 - alpha / 2, pairs - 1))
    shift = abs(effect_size) * sqrt(pairs)
    probability = float(nct.sf(critical, pairs - 1, shift) + nct.cdf(-critical, pairs - 1, shift))
    return probability if isfinite(probability) else 1.0  # nct has no number far in the tail


def needed_pairs(effect_size: float, target: float = 0.8) -> int | None:
    """Return the smallest number of pairs whose test has the ``target`` power; None if more than
    100,000.
    """
    if effect_size == 0 or power(effect_size, _MOST_PAIRS) < target:
        return None
    low, high = 1, 2  # low is too few
    while power(effect_size, high) < target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(effect_size, middle) >= target else (middle, high)
    return high
