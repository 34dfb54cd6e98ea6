"""Page of a sweep: its tie, its figures, its tables; its record, from the study and from the
directories of its trials.
"""

import json

import optuna
import pytest

from road_ray.errors import DataError
from road_ray.reporting.pages.page import Table, render
from road_ray.reporting.pages.sweep_page import curves, figures, front, surface, sweep_page
from road_ray.reporting.records.sweep_record import Sweep, read_sweep
from road_ray.reporting.report import page_of
from tests.sweeps import study_of


def test_the_page_tells_all_trials_and_why_one_failed(sweep_directory):
    page = sweep_page(read_sweep(sweep_directory))
    assert [section.title for section in page.sections] == [
        *("Best", "Figures", "Trials", "Failures", "Set-up")
    ]
    table = page.sections[2].blocks[0]
    assert isinstance(table, Table)
    assert table.live
    assert list(table.trials) == list(range(12))
    html = render(page)
    assert "diverged &lt;script&gt;" in html
    assert html.count("<script>") == 1
    assert "± 0.50" in html
    assert ("trials", "12", "11 complete, 1 failed") in page.tiles


METRIC = "eval/sst2/accuracy"


def sweep(values, directory, *, deviation=None, **settings):
    drawn = [({"a.lr": n + 1, "a.wd": n % 3}, [value]) for n, value in enumerate(values)]
    attributes = {} if deviation is None else {"deviation": [deviation]}
    return Sweep(study_of(drawn, [METRIC], user_attrs=attributes), directory, settings)


@pytest.mark.parametrize(("rows", "tied"), [(400, True), (40_000, False)])
def test_one_seed_is_measured_by_the_evaluated_rows(tmp_path, rows, tied):
    """At 80% of 400 rows the standard error is 2 points; the range of four equal models stays below
    3.63 of them (studentised range), 7.3 points. With 40,000 rows it is 0.73 points.
    """
    place = tmp_path / "trials" / "0000" / "run" / "predictions" / "sst2"
    place.mkdir(parents=True)
    (place / "diagnostics.json").write_text(json.dumps({"rows": rows}))
    sentence = sweep([80.0, 82.0, 79.0, 81.0], tmp_path).tie
    assert bool(sentence) is tied
    if tied:
        assert "4 trials between 79 and 82" in sentence
        assert "uncertain by ± 2." in sentence


def test_several_seeds_are_measured_by_their_deviation(tmp_path):
    """Three trials of three seeds with deviation 1: a mean is uncertain by 1 / sqrt 3 = 0.58, and
    the range of three equal models stays below 4.34 of it (six degrees of freedom), 2.5 points.
    """
    close = sweep([80.0, 80.5, 82.4], tmp_path, deviation=1.0, seeds=3)
    assert "over 3 seeds one value is uncertain by ± 0.58" in close.tie
    far = sweep([80.0, 80.5, 82.6], tmp_path, deviation=1.0, seeds=3)
    assert far.tie == ""


def test_the_page_of_a_tie_says_so_and_ranks_nothing(tmp_path):
    page = sweep_page(sweep([80.0] * 12, tmp_path))
    (verdict,) = page.sections[0].blocks[0]
    assert verdict.text.startswith("No difference: 12 trials have the same value, 80.")
    titles = [figure.title for figure in page.plots()]
    assert titles == [f"History: {METRIC}", "a.lr", "a.wd"]
    html = render(page)
    assert "Importance" not in html
    assert "<strong>" not in html
    assert "no difference between the trials" in html
    (dots,) = page.plots()[0].axes.collections
    assert len(dots.get_facecolors()) == 12
    assert len({*map(tuple, dots.get_facecolors())}) == 1


@pytest.fixture(scope="module")
def drawn(sweep_directory):
    return read_sweep(sweep_directory)


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def trials_of(collection):
    return [int(url.removeprefix("#trial-")) for url in collection.get_urls()]


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("metrics", [1, 2])
def test_importance_is_that_of_the_best_trials_in_either_direction(tmp_path, direction, metrics):
    keys = [{"much": n * 37 % 100 / 100, "little": n * 61 % 97 / 97} for n in range(60)]
    sign = 1.0 if direction == "maximize" else -1.0
    # Only the best trials, in a corner of `much`, are good: importance of low values is another.
    values = [sign * (10 * max(0.0, one["much"] - 0.8) + 0.1 * one["little"]) for one in keys]
    trials = [(one, [value] * metrics) for one, value in zip(keys, values, strict=True)]
    sweep = Sweep(study_of(trials, ("m", "k")[:metrics], direction), tmp_path)
    assert sweep.importances["much"] > 0.9


def test_there_is_a_slice_for_every_key(drawn):
    wrong, temperature, rule = figures(drawn)[-3:]
    titles = ("weighting.wrong", "distillation.temperature", "weighting.rule")
    assert (wrong.title, temperature.title, rule.title) == titles
    assert temperature.axes.get_xscale() == "log"
    assert surface(drawn).title.startswith("temperature ")
    assert len(labels(rule.axes.xaxis)) == 2
    (dots,) = wrong.axes.collections
    assert trials_of(dots) == list(range(11))
    assert list(dots.get_offsets()[:5, 0]) == [0.0, 0.25, 0.5, 0.75, 0.0]


def test_words_that_begin_alike_have_a_place_each(tmp_path):
    study = optuna.create_study()
    words = optuna.distributions.CategoricalDistribution(["runs/pretrained/b", "runs/pretrained/a"])
    for number, word in enumerate(words.choices):
        told = {"params": {"init": word}, "distributions": {"init": words}}
        study.add_trial(optuna.trial.create_trial(value=float(number), **told))
    plot = figures(Sweep(study, tmp_path))[-1]
    (dots,) = plot.axes.collections
    assert list(dots.get_offsets()[:, 0]) == [1, 0]
    assert labels(plot.axes.xaxis) == ["runs/pretrained…"] * 2


def test_curves_mark_the_best(drawn):
    (lines,) = curves(drawn).axes.collections
    assert len(lines.get_segments()) == 12
    bold = [t for t, w in zip(trials_of(lines), lines.get_linewidths(), strict=True) if w > 2]
    assert bold == [7]


def test_trials_that_tie_have_one_colour_and_keys_three_digits(tmp_path):
    values = [({"a.lr": 0.1234}, [80.0]), ({"a.lr": 0.5678}, [80.0])]
    sweep = Sweep(study_of(values, [METRIC], intermediate_values={1: 79.0, 2: 80.0}), tmp_path)
    (lines,), (dots,) = (plot.axes.collections for plot in (curves(sweep), figures(sweep)[0]))
    assert {*map(tuple, lines.get_colors())} == {*map(tuple, dots.get_facecolors())}
    table = sweep_page(sweep).sections[0].blocks[1]
    assert {row[-1].text for row in table.cells} == {"0.123", "0.568"}


def test_two_metrics_have_a_front(front_directory):
    sweep = read_sweep(front_directory)
    page = sweep_page(sweep)
    assert page.tiles[1][0] == "on the Pareto front"
    assert "highest eval/squad_v2/f1 and lowest cost/seconds" in page.about
    axes = front(sweep).axes
    assert len(trials_of(axes.collections[0])) == 11
    assert 1 <= len(axes.lines[0].get_xdata()) < 11


def test_a_sweep_without_a_complete_trial_has_its_history(tmp_path):
    study = study_of([])
    study.add_trial(optuna.trial.create_trial(state=optuna.trial.TrialState.RUNNING))
    empty = Sweep(study, tmp_path)
    assert [plot.title for plot in figures(empty)] == ["History: m"]
    assert "No trial is complete yet." in render(sweep_page(empty))


def test_a_study_that_cannot_be_opened_is_told(tmp_path):
    (tmp_path / "study.journal").write_text("")
    with pytest.raises(DataError, match="holds no study"):
        page_of([tmp_path])
