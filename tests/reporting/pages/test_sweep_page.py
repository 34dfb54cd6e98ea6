"""The sweep page: best trials, figures, all trials, failures with reasons."""

from __future__ import annotations

from road_ray.reporting.pages.page import Table, render
from road_ray.reporting.pages.sweep_page import sweep_page
from road_ray.reporting.records.sweep_record import read_sweep


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


def test_a_thousand_trials_stay_small(thousand_trials):
    assert len(render(sweep_page(thousand_trials))) < 4e6
