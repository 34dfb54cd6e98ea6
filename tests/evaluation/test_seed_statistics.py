"""Intervals, Holm's correction, effect sizes and power: by hand and against tables."""

from math import sqrt

import numpy as np
import pytest
from scipy.stats import ttest_rel

from road_ray.evaluation.seed_statistics import (
    compare,
    holm,
    interval,
    is_significant,
    needed_pairs,
    power,
)


def test_interval_of_four_values_by_the_table_of_t():
    # mean 5, deviation sqrt(20 / 3), t(0.975, 3) = 3.182
    low, high = interval([2.0, 4.0, 6.0, 8.0])
    half = 3.1824 * sqrt(20 / 3) / 2
    assert (low, high) == pytest.approx((5 - half, 5 + half), rel=1e-4)


def test_holm_multiplies_by_the_number_of_tests_left_and_never_falls():
    # sorted: 0.01 * 4, 0.02 * 3, 0.03 * 2 (below the one before), 0.9
    assert holm([0.03, 0.01, 0.9, 0.02]) == pytest.approx([0.06, 0.04, 0.9, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []
    # An undefined one counts and stays undefined: 0.01 * 3, 0.04 * 2
    assert holm([0.04, None, 0.01]) == pytest.approx([0.08, None, 0.03])
    assert holm([None]) == [None]


def test_compare_pairs_by_seed():
    assert [is_significant(p) for p in (0.0499, 0.05, 1.0, None)] == [True, False, False, False]
    result = compare([3.0, 4.0, 6.0], [1.0, 3.0, 4.0])  # differences 2, 1, 2
    assert result.difference == pytest.approx(5 / 3)
    assert result.effect_size == pytest.approx((5 / 3) / sqrt(1 / 3))
    assert result.p_value == pytest.approx(ttest_rel([3, 4, 6], [1, 3, 4]).pvalue)
    half = 4.3027 * sqrt(1 / 3) / sqrt(3)
    assert (result.low, result.high) == pytest.approx((5 / 3 - half, 5 / 3 + half), rel=1e-4)
    assert (result.pairs, result.needed_pairs) == (3, 4)


def test_differences_equal_up_to_rounding_have_no_p_value_and_no_effect_size():
    result = compare([2.0, 3.0], [1.0, 2.0])
    assert (result.effect_size, result.needed_pairs) == (None, None)
    assert (result.low, result.high) == (1.0, 1.0)
    left, right = [100 * 241 / 300, 100 * 242 / 300], [100 * 240 / 300, 100 * 241 / 300]
    assert left[0] - right[0] != left[1] - right[1]  # one row of 300 each, an ulp apart
    result = compare(left, right)
    assert result.difference == pytest.approx(1 / 3)
    assert (result.p_value, result.effect_size, result.needed_pairs) == (None, None, None)
    zero = compare([0.1 + 0.2, 80.0], [0.3, 80.0])  # the first difference is 5.6e-17
    assert (zero.difference, zero.p_value, zero.effect_size) == (0.0, 1.0, None)
    # The tolerance is relative to the scores.
    assert compare([1.0, 2.0], [0.0, 1.0 - 1e-6]).p_value is not None
    assert compare([1e6 + 1.0, 1e6 + 2.0], [1e6, 1e6 + 1.0 - 1e-4]).p_value is None
    assert compare([1.0], [2.0]).p_value is None  # of one pair


@pytest.mark.parametrize(("effect", "pairs"), [(0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10)])
def test_needed_pairs_are_those_of_the_tables_of_power(effect, pairs):
    """Two-sided paired t-test, alpha 0.05, power 0.8, as G*Power gives them."""
    assert needed_pairs(effect) == needed_pairs(-effect) == pairs
    assert power(effect, pairs) >= 0.8 > power(effect, pairs - 1)
    assert needed_pairs(0.0) is needed_pairs(1e-4) is None


@pytest.mark.parametrize("effect", [5.92, 7.1, 9.57, 12.0])  # scipy's nct.cdf gives NaN there
def test_power_of_two_pairs_equals_the_share_of_simulated_tests(effect):
    differences = np.random.default_rng(0).normal(effect, 1.0, (400_000, 2))
    statistics = differences.mean(1) / (differences.std(1, ddof=1) / sqrt(2))
    share = float((np.abs(statistics) > 12.7062).mean())  # t of one degree of freedom, two-sided
    assert power(effect, 2) == pytest.approx(share, abs=0.004)
    assert needed_pairs(effect) == (2 if effect == 12.0 else 3)
