"""The weight of the soft loss over a training."""

from __future__ import annotations

import pytest

from road_ray.distillation.schedule import Schedule, schedule
from road_ray.errors import ConfigError


def test_constant_is_the_configured_weight_at_any_time():
    weight = schedule("constant", 0.3)
    assert [weight(fraction) for fraction in (0.0, 0.5, 1.0)] == [0.3, 0.3, 0.3]
    assert weight.is_constant


def test_linear_hands_over_from_the_teachers_to_gold():
    weight = schedule("linear", 0.3)
    assert [weight(fraction) for fraction in (0.0, 0.25, 0.5, 1.0)] == [1.0, 0.75, 0.5, 0.0]
    assert not weight.is_constant


def test_points_are_joined_by_straight_lines_and_level_outside():
    weight = schedule(((0.2, 0.8), (0.4, 0.4), (0.6, 0.4)), 0.5)
    weights = [weight(fraction) for fraction in (0.0, 0.2, 0.3, 0.4, 0.5, 1.0)]
    assert weights == pytest.approx([0.8, 0.8, 0.6, 0.4, 0.4, 0.4])


def test_two_points_at_one_fraction_are_a_jump():
    weight = Schedule(((0.0, 1.0), (0.5, 1.0), (0.5, 0.0)))
    assert [weight(fraction) for fraction in (0.0, 0.49, 0.5, 0.9)] == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "points", [(), ((0.5, 0.5), (0.2, 0.1)), ((0.0, 1.5),), ((-0.1, 0.5),), ((0.0, float("nan")),)]
)
def test_points_out_of_order_or_range_are_refused(points):
    with pytest.raises(ConfigError, match=r"distillation\.schedule"):
        Schedule(points)
