"""Differences between methods over seeds: intervals, correction for many tests, power."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt

import numpy as np

from road_ray.evaluation.metrics import paired_test, summary

_MOST_PAIRS = 100_000


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
