"""Statistics over seeds: mean and deviation, intervals, paired tests, their correction, power."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from statistics import mean, stdev

import numpy as np

from road_ray.evaluation.metrics import as_numbers

_MOST_PAIRS = 100_000
_LEVEL = 0.05  # of significance
_POWER = 0.8
_ROUNDING = 1e-9  # differences that are closer, relative to the scores, are equal


def summary(values: Sequence[float]) -> tuple[float, float | None]:
    """Return mean and sample deviation (n - 1) of one score over seeds; None for a single value."""
    numbers = as_numbers(values).tolist()
    # Exact sums: equal scores have a deviation of 0 and not of a rounding error.
    return mean(numbers), stdev(numbers) if len(numbers) > 1 else None


def means(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each score that all runs have, and beside it ``<score>_deviation``, which
    a single run does not have.
    """
    averages: dict[str, float] = {}
    for name in runs[0]:
        if all(name in run for run in runs):
            averages[name], deviation = summary([run[name] for run in runs])
            if deviation is not None:
                averages[f"{name}_deviation"] = deviation
    return averages


def is_significant(p_value: float | None) -> bool:
    """Return True for a p value below 0.05, and False for an undefined one."""
    return p_value is not None and p_value < _LEVEL


@dataclass(frozen=True)
class Difference:
    """Paired difference of two methods, by a two-sided t-test.

    ``p_value`` is 1 where all differences are zero, and None where they are equal and not zero.
    ``effect_size`` is Cohen's d of the differences, None where all are equal; ``needed_pairs`` is
    the number of seeds for a power of 80%, None where the effect is undefined or too small for
    100,000.
    """

    difference: float
    low: float
    high: float
    p_value: float | None
    effect_size: float | None
    pairs: int
    needed_pairs: int | None


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95% interval of the mean by the t distribution; None for a single value."""
    from scipy.stats import t

    center, deviation = summary(values)
    if deviation is None:
        return None
    half = float(t.ppf(1 - _LEVEL / 2, len(values) - 1)) * deviation / sqrt(len(values))
    return center - half, center + half


def compare(left: Sequence[float], right: Sequence[float]) -> Difference:
    """Return the paired difference ``left - right``; both are in the order of the seeds.

    Differences count as equal if they are so up to rounding, such as one more right row of a small
    dev set for every seed.
    """
    from scipy.stats import ttest_rel

    first, second = as_numbers(left), as_numbers(right)
    gaps = first - second
    bounds = interval(gaps.tolist()) or (nan, nan)  # of one pair, which is no test
    gap = float(gaps.mean())
    rounding = _ROUNDING * max(1.0, float(np.abs([first, second]).max()))
    if np.ptp(gaps) <= rounding:
        gap, p_value = (0.0, 1.0) if abs(gap) <= rounding else (gap, None)
        return Difference(gap, *bounds, p_value, None, len(gaps), None)
    effect = gap / float(gaps.std(ddof=1))
    p_value = float(ttest_rel(first, second).pvalue)
    return Difference(gap, *bounds, p_value, effect, len(gaps), needed_pairs(effect))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p values corrected for the number of tests; undefined ones (None) count as tests and
    stay undefined. Source: Holm 1979.
    """
    known = [(p_value, index) for index, p_value in enumerate(p_values) if p_value is not None]
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p_value, index) in enumerate(sorted(known)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_value))
        corrected[index] = largest
    return corrected


def power(effect_size: float, pairs: int) -> float:
    """Return the power of a two-sided paired t-test, by the noncentral F distribution of t^2."""
    from scipy.stats import ncf, t

    # Not by `nct`, whose lower tail is NaN for large effects (at two pairs already for 6).
    critical = float(t.ppf(1 - _LEVEL / 2, pairs - 1))
    return float(ncf.sf(critical**2, 1, pairs - 1, pairs * effect_size**2))


def needed_pairs(effect_size: float) -> int | None:
    """Return the smallest number of pairs for a power of 80%; None if more than 100,000."""
    if effect_size == 0 or power(effect_size, _MOST_PAIRS) < _POWER:
        return None
    pairs = range(2, _MOST_PAIRS)
    return pairs[bisect_left(pairs, _POWER, key=lambda number: power(effect_size, number))]
