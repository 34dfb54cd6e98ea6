"""Pages of sweeps, and the noise of a sweep by hand."""

from __future__ import annotations

import json

import pytest

from road_ray.reporting.pages.page import Table, Verdict, render
from road_ray.reporting.pages.sweep_page import sweep_page, tie
from road_ray.reporting.records.sweep_record import Sweep, Trial, read_sweep


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


def test_several_metrics_have_a_front_for_the_best(front_directory):
    page = sweep_page(read_sweep(front_directory))
    assert page.tiles[1][0] == "on the Pareto front"
    assert "highest eval/squad_v2/f1 and lowest value 1" in page.about


@pytest.mark.slow
def test_a_thousand_trials_stay_small(thousand_trials):
    assert len(render(sweep_page(thousand_trials))) < 4e6


METRIC = "eval/sst2/accuracy"


def sweep(values, directory, *, deviations=None, **settings):
    trials = [
        Trial(
            number,
            "complete",
            {"a.lr": float(number + 1), "a.wd": float(number % 3)},
            (value,),
            deviations=() if deviations is None else (deviations[number],),
        )
        for number, value in enumerate(values)
    ]
    return Sweep("s", directory, (METRIC,), (True,), trials, settings=settings)


def evaluated(directory, rows):
    place = directory / "trials" / "0000" / "run"
    (place / "predictions" / "sst2").mkdir(parents=True)
    (place / "metrics.jsonl").write_text('{"step": 1}\n')
    path = place / "predictions" / "sst2" / "diagnostics.json"
    path.write_text(json.dumps({"rows": rows}))


def test_equal_values_are_no_difference(tmp_path):
    assert tie(sweep([80.0] * 4, tmp_path)) == "No difference: 4 trials have the same value, 80."


@pytest.mark.parametrize(("rows", "tied"), [(400, True), (40_000, False)])
def test_one_seed_is_measured_by_the_evaluated_rows(tmp_path, rows, tied):
    """At 80% of 400 rows the standard error is 2 points; the range of four equal models stays below
    3.63 of them (studentised range), 7.3 points. With 40,000 rows it is 0.73 points.
    """
    evaluated(tmp_path, rows)
    sentence = tie(sweep([80.0, 82.0, 79.0, 81.0], tmp_path))
    assert bool(sentence) is tied
    if tied:
        assert "4 trials between 79 and 82" in sentence
        assert "uncertain by ± 2." in sentence


def test_several_seeds_are_measured_by_their_deviation(tmp_path):
    """Three trials of three seeds with deviation 1: a mean is uncertain by 1 / sqrt 3 = 0.58, and
    the range of three equal models stays below 4.34 of it (six degrees of freedom), 2.5 points.
    """
    close = sweep([80.0, 80.5, 82.4], tmp_path, deviations=[1.0] * 3, seeds=3)
    assert "over 3 seeds one value is uncertain by ± 0.58" in tie(close)
    far = sweep([80.0, 80.5, 82.6], tmp_path, deviations=[1.0] * 3, seeds=3)
    assert tie(far) == ""


def test_the_page_of_a_tie_says_so_and_ranks_nothing(tmp_path):
    page = sweep_page(sweep([80.0] * 12, tmp_path))
    (verdict,) = [b for s in page.sections for b in s.blocks if isinstance(b, Verdict)]
    assert verdict.lines[0][0].startswith("No difference: 12 trials")
    titles = [figure.title for figure in page.plots()]
    assert titles == [f"History: {METRIC}", "a.lr", "a.wd"]
    html = render(page)
    assert "Importance" not in html
    assert "<strong>" not in html
    assert "no difference between the trials" in html
    (dots,) = page.plots()[0].axes.collections
    assert len(dots.get_facecolors()) == 12
    assert len({*map(tuple, dots.get_facecolors())}) == 1
