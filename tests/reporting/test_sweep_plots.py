"""Figures of a sweep show every trial at its position."""

from __future__ import annotations

import pytest

from road_ray.reporting.pages.page import render
from road_ray.reporting.pages.sweep_page import SweepPlots, sweep_page
from road_ray.reporting.plots import palette
from road_ray.reporting.records.sweep_record import Sweep, Trial, read_sweep


@pytest.fixture(scope="module")
def drawn(sweep_directory):
    return SweepPlots(read_sweep(sweep_directory))


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def trials_of(collection):
    return [int(url.removeprefix("#trial-")) for url in collection.get_urls()]


def test_importance_knows_what_mattered(drawn):
    shown = drawn.importance().axes
    assert labels(shown.yaxis)[0] == "weighting.wrong"
    assert sum(float(text.get_text()) for text in shown.texts) == pytest.approx(100.0, abs=0.2)


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("metrics", [1, 2])
def test_importance_is_that_of_the_best_trials_in_either_direction(tmp_path, direction, metrics):
    """Optuna without a target knows the direction; of a negated metric it is the same."""
    import optuna

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
    assert SweepPlots(sweep).importances == pytest.approx(expected)
    assert expected["much"] > 0.9


def test_there_is_a_slice_for_every_key(drawn):
    wrong, temperature, rule = drawn.all()[-3:]
    titles = ("weighting.wrong", "distillation.temperature", "weighting.rule")
    assert (wrong.title, temperature.title, rule.title) == titles
    assert temperature.axes.get_xscale() == "log"
    assert len(labels(rule.axes.xaxis)) == 2
    (dots,) = wrong.axes.collections
    assert trials_of(dots) == list(range(11))
    assert list(dots.get_offsets()[:5, 0]) == [0.0, 0.25, 0.5, 0.75, 0.0]


def test_scattered_draws_are_dots_by_rank(tmp_path):
    trials = [
        Trial(n, "complete", {"a": (n * 37 % 100) / 100, "b": (n * 61 % 97) / 97}, (float(n),))
        for n in range(40)
    ]
    plot = SweepPlots(Sweep("s", tmp_path, ("m",), (True,), trials)).surface()
    (dots,) = plot.axes.collections
    assert trials_of(dots) == list(range(40))
    from matplotlib.colors import to_hex

    colors = [to_hex(color) for color in dots.get_facecolors()]
    assert (colors[0], colors[-1]) == (palette()["c0"], palette()["c9"])


def test_curves_mark_the_best(drawn):
    (lines,) = drawn.curves().axes.collections
    assert len(lines.get_segments()) == 12
    bold = [t for t, w in zip(trials_of(lines), lines.get_linewidths(), strict=True) if w > 2]
    assert bold == [7]


def test_two_metrics_have_a_front(front_directory):
    axes = SweepPlots(read_sweep(front_directory)).front().axes
    assert len(trials_of(axes.collections[0])) == 11
    assert 1 <= len(axes.lines[0].get_xdata()) < 11


def test_a_sweep_without_a_complete_trial_has_its_history(tmp_path):
    empty = Sweep("s", tmp_path, ("m",), (True,), [Trial(0, "running", {"a": 1.0})])
    assert [plot.title for plot in SweepPlots(empty).all()] == ["History: m"]
    assert "No trial is complete yet." in render(sweep_page(empty))
