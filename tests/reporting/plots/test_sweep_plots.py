"""Figures of a sweep show every trial at its position."""

from __future__ import annotations

import pytest

from road_ray.reporting.plots.chart import Chart, Parallel
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
    assert sum(row[1] for row in bars.rows) == pytest.approx(100.0)


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("metrics", [1, 2])
def test_importance_is_that_of_the_best_trials_in_either_direction(tmp_path, direction, metrics):
    """Optuna without a target knows the direction; of a negated metric it is the same."""
    import optuna

    from road_ray.reporting.plots.sweep_plots import importances

    drawn = [(n * 37 % 100 / 100, n * 61 % 97 / 97) for n in range(60)]
    sign = 1.0 if direction == "maximize" else -1.0
    # Only the best trials, in a corner of `much`, are good: importance of low values is another.
    values = [sign * (10 * max(0.0, much - 0.8) + 0.1 * little) for much, little in drawn]
    space = {name: optuna.distributions.FloatDistribution(0, 1) for name in ("much", "little")}
    studies = [optuna.create_study(directions=[direction] * n) for n in (1, metrics)]
    for (much, little), value in zip(drawn, values, strict=True):
        for study in studies:
            study.add_trial(
                optuna.trial.create_trial(
                    params={"much": much, "little": little},
                    distributions=space,
                    values=[value] * len(study.directions),
                )
            )
    expected = optuna.importance.get_param_importances(
        studies[0], evaluator=optuna.importance.PedAnovaImportanceEvaluator()
    )
    trials = [
        Trial(n, "complete", dict(zip(("much", "little"), keys, strict=True)), (value,) * metrics)
        for n, (keys, value) in enumerate(zip(drawn, values, strict=True))
    ]
    larger = (direction == "maximize",) * metrics
    sweep = Sweep("s", tmp_path, ("m", "k")[:metrics], larger, trials, study=studies[1])
    assert importances(sweep, metrics - 1) == pytest.approx(expected)
    assert expected["much"] > 0.9


def test_trials_that_all_tie_have_no_importance(tmp_path):
    import optuna

    from road_ray.reporting.plots.sweep_plots import importances

    space = {name: optuna.distributions.FloatDistribution(0, 1) for name in ("a", "b")}
    study, trials = optuna.create_study(direction="maximize"), []
    for n in range(20):
        params = {"a": n / 20, "b": n * 7 % 20 / 20}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, values=[1.0]))
        trials.append(Trial(n, "complete", params, (1.0,)))
    assert importances(Sweep("s", tmp_path, ("m",), (True,), trials, study=study)) == {}


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


def test_scattered_draws_are_dots_by_rank(tmp_path):
    trials = [
        Trial(n, "complete", {"a": (n * 37 % 100) / 100, "b": (n * 61 % 97) / 97}, (float(n),))
        for n in range(40)
    ]
    (chart,) = SweepFigures(Sweep("s", tmp_path, ("m",), (True,), trials)).surfaces()
    assert [dot.trial for dot in chart.dots] == list(range(40))
    assert (chart.dots[0].shade, chart.dots[-1].shade) == (0.0, 1.0)


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
    assert "single key value" in SweepFigures(empty).absent()


def test_figures_that_are_left_out_are_named_with_the_reason(tmp_path, drawn):
    def of(trials):
        return SweepFigures(Sweep("s", tmp_path, ("m",), (True,), trials)).absent()

    keys = [{"a": 0.1 * n, "rule": "mean" if n % 2 else "entropy"} for n in range(6)]
    trials = [Trial(n, "complete", params, (float(n),)) for n, params in enumerate(keys)]
    assert "heat map: it needs four complete trials and two keys of numbers" in of(trials)
    assert "1 complete trial" in of([trials[1], Trial(2, "running", keys[2])])
    assert drawn.absent() == ""
