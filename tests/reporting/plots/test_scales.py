"""Positions and ticks of scales."""

from __future__ import annotations

import pytest

from road_ray.reporting.plots.chart import Axis
from road_ray.reporting.plots.scales import log_ticks, scale, shade_class, shades, short, ticks


def test_ticks_are_round():
    assert ticks(0.0, 10.0) == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert ticks(-0.03, 0.31) == [0.0, 0.1, 0.2, 0.3]
    assert ticks(3.0, 3.0) == [3.0]


def test_logarithmic_ticks_are_powers_or_their_parts():
    assert log_ticks(1e-5, 1e-3) == pytest.approx([1e-5, 1e-4, 1e-3])
    assert log_ticks(1.0, 10.0) == pytest.approx([1, 2, 5, 10])
    assert log_ticks(0.24, 1.9) == pytest.approx([0.3, 0.5, 0.7, 1, 1.5])


@pytest.mark.parametrize("log", [False, True])
def test_a_scale_keeps_order_and_room(log):
    along = scale(Axis(log=log), [1.0, 10.0, 100.0], 0.0, 300.0)
    places = [along.at(value) for value in (1.0, 10.0, 100.0)]
    assert 0 < places[0] < places[1] < places[2] < 300
    assert (places[1] == pytest.approx(150.0, abs=1)) is log


def test_names_stand_at_whole_numbers():
    along = scale(Axis(names=("a", "b")), [], 0.0, 100.0)
    assert [(at, name) for at, name in along.ticks()] == [(25.0, "a"), (75.0, "b")]


@pytest.mark.parametrize(
    ("value", "message"),
    [(0.75, "0.75"), (1500, "1.5k"), (2e-4, "2e-4"), (1.5e7, "1.5e7"), (0, "0"), (-3, "-3")],
)
def test_numbers_are_short(value, message):
    assert short(value) == message


def test_shades_go_by_rank():
    assert shades([1.0, 1e9, 2.0, None], larger_is_better=True) == [0.0, 1.0, 0.5, None]
    assert shades([3.0, 3.0], larger_is_better=False) == [1.0, 1.0]
    assert shades([1.0, 2.0], larger_is_better=False) == [1.0, 0.0]
    assert (shade_class(0.0), shade_class(0.55), shade_class(1.0)) == ("c0", "c5", "c9")


def test_one_value_or_none_still_has_a_scale():
    assert scale(Axis(), [5.0], 0.0, 10.0).at(5.0) == pytest.approx(5.0)
    assert scale(Axis(log=True), [], 0.0, 10.0).ticks()


def test_zeros_alone_have_an_axis_from_zero():
    labels = [label for _, label in scale(Axis(), [0.0, 0.0], 0, 100).ticks()]
    assert labels == ["0", "0.5", "1"]


def test_ticks_of_a_narrow_range_have_labels_that_differ():
    labels = [label for _, label in scale(Axis(), [0.69361, 0.69398], 0, 100).ticks()]
    assert labels == ["0.6936", "0.6937", "0.6938", "0.6939"]


def test_an_axis_of_whole_numbers_has_no_others():
    labels = [label for _, label in scale(Axis("trial", whole=True), [0, 2], 0, 100).ticks()]
    assert labels == ["0", "1", "2"]
