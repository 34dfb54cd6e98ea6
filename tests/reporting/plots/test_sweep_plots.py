"""Figures of a sweep show every trial at its position."""

from __future__ import annotations

import pytest

from road_ray.reporting.plots.chart import Bars, Chart, Parallel
from road_ray.reporting.plots.sweep_plots import SweepFigures
from road_ray.reporting.records.sweep_record import Sweep, Trial, read_sweep


@pytest.fixture(scope="module")
def drawn(sweep_directory):
    return SweepFigures(read_sweep(sweep_directory))


def test_history_has_every_judged_trial_and_the_best_so_far(drawn):
    chart = drawn.history()
    assert len(chart.dots) == 11
    best = [y for _, y in chart.lines[0].points]
    assert best == sorted(best)
    assert chart.lines[0].points[-1][0] == 11.0


def test_importance_knows_what_mattered(drawn):
    bars = drawn.importance()
    assert isinstance(bars, Bars)
    assert sum(share for _, share in bars.rows) == pytest.approx(100.0)


def test_there_is_a_slice_for_every_key(drawn):
    assert [chart.title for chart in drawn.slices()] == [
        *("weighting.wrong", "distillation.temperature", "weighting.rule")
    ]
    wrong, temperature, rule = drawn.slices()
    assert temperature.x.log
    assert len(rule.x.names) == 2
    assert [dot.trial for dot in wrong.dots] == list(range(11))


def test_lines_of_the_best_come_last(drawn):
    figure = drawn.parallel()
    assert isinstance(figure, Parallel)
    assert [axis.label for axis in figure.axes] == ["wrong", "temperature", "rule", "f1"]
    assert figure.rows[-1][1] == 1.0
    assert all(len(values) == 4 for _, _, values in figure.rows)


def test_a_grid_of_draws_is_a_heat_map_with_means(drawn):
    chart = drawn.surfaces()[0]
    assert (chart.x.label, chart.y.label) == ("distillation.temperature", "weighting.wrong")
    assert len(chart.cells) == 11  # 4 x 3 fields, of which the failed trial leaves one empty
    assert chart.x.names == ("1", "2", "4")
    best = max(chart.cells, key=lambda cell: cell.shade)
    assert best.low[1] == 2.5  # W = 0.75


def test_scattered_draws_are_smoothed_within_what_was_seen(tmp_path):
    trials = [
        Trial(n, "complete", {"a": (n * 37 % 100) / 100, "b": (n * 61 % 97) / 97}, (float(n),))
        for n in range(40)
    ]
    figures = SweepFigures(Sweep("s", tmp_path, ("m",), (True,), trials))
    (chart,) = figures.surfaces()
    assert len(chart.dots) == 40
    assert {cell.text for cell in chart.cells} == {""}
    assert min(cell.low[0] for cell in chart.cells) == pytest.approx(0.0)


def test_curves_mark_the_best(drawn):
    chart = drawn.curves()
    assert len(chart.lines) == 12
    assert [line.trial for line in chart.lines if line.shade is None] == [7]


def test_two_metrics_have_a_front(front_directory):
    chart = SweepFigures(read_sweep(front_directory)).front()
    assert isinstance(chart, Chart)
    assert len(chart.dots) == 11
    assert 1 <= len(chart.lines[0].points) < 11


def test_a_sweep_that_has_just_begun_is_no_trouble(tmp_path):
    empty = Sweep("s", tmp_path, ("m",), (True,), [Trial(0, "running", {"a": 1.0})])
    assert [figure.title for figure in SweepFigures(empty).all()] == ["History: m"]
