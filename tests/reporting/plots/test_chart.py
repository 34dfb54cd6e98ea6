"""Thinned curves keep their extremes."""

from __future__ import annotations

from road_ray.reporting.plots.chart import Axis, Cell, Chart, Dot, Line, thinned


def test_a_spike_survives_thinning():
    points = [(float(step), 1.0) for step in range(10_000)]
    points[4321] = (4321.0, 99.0)
    remaining = thinned(points, 100)
    assert len(remaining) <= 100
    assert (4321.0, 99.0) in remaining
    assert remaining[0] == points[0]
    assert remaining[-1] == points[-1]
    assert remaining == sorted(remaining)


def test_short_curves_stay_as_they_are():
    assert thinned([(0.0, 1.0), (1.0, 2.0)]) == [(0.0, 1.0), (1.0, 2.0)]


def test_everything_finite_counts_for_the_frame():
    nan = float("nan")
    chart = Chart(
        "t",
        Axis(),
        Axis(),
        cells=[Cell((0, 0), (1, 1), 0.5)],
        lines=[Line([(2.0, 2.0), (3.0, nan)])],
        dots=[Dot(4.0, 4.0)],
    )
    assert sorted(chart.points()) == [(0, 0), (1, 1), (2.0, 2.0), (4.0, 4.0)]
