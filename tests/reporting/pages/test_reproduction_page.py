"""Page of a comparison: figures with intervals, tests, published figures, sizes, failed runs."""

from __future__ import annotations

import json

import pytest

from road_ray.errors import CheckpointError
from road_ray.reporting.pages.page import NOTHING, Figures, Prose, Table
from road_ray.reporting.pages.reproduction_page import (
    comparison_text,
    is_reproduction,
    reproduction_page,
)
from road_ray.reporting.report import report


def figure(mean, deviation=0.5, published=None):
    low, high = (None, None) if deviation is None else (mean - 1.0, mean + 1.0)
    values = {"0": mean - 0.5, "1": mean + 0.5}
    return {"mean": mean, "deviation": deviation, "low": low, "high": high, "values": values} | {
        "published": published
    }


def arm(name, mean, parameters=1_000_000, right=None, published=None):
    return {
        "name": name,
        "about": f"arm {name}",
        "seeds": [0, 1],
        "figures": {"sst2/accuracy": figure(mean, published=published)},
        "parameters": parameters,
        "rows_per_second": None,
        "teachers_right": right,
    }


@pytest.fixture
def table():
    test = {"data_set": "sst2", "metric": "accuracy", "arm": "mean", "against": "none"}
    test |= {"difference": 2.0, "low": 1.0, "high": 3.0, "p_value": 0.01, "effect_size": 4.0}
    test |= {"pairs": 2, "needed_pairs": 3, "p_holm": 0.02}
    teachers = {"teachers": 80.0, "deviation": 1.0, "ensemble": 82.5}
    return {
        "comparison": "low_resource",
        "about": "few labels",
        "source": "no published table",
        "data_sets": {"sst2": ["accuracy"]},
        "arms": [arm("none", 70.0), arm("mean", 72.0, 500_000, [0.1, 0.2, 0.7], 91.38)],
        "ensembles": [
            {"name": "teachers-sst2", "teachers": 3, "figures": {"sst2/accuracy": teachers}}
        ],
        "tests": [test],
        "failed": [{"arm": "mean", "seed": 2, "error": "out of memory"}],
    }


@pytest.fixture
def directory(table, tmp_path):
    (tmp_path / "table.json").write_text(json.dumps(table, indent=2))
    return tmp_path


def blocks(page, title):
    (section,) = [one for one in page.sections if one.title == title]
    return section.blocks


def test_figures_stand_with_intervals_published_figures_and_sizes(directory):
    page = reproduction_page(directory)
    (results,) = blocks(page, "Results on sst2")
    assert isinstance(results, Table)
    rows = [[cell.text for cell in row] for row in results.cells]
    assert rows[1] == [
        "arm mean",
        "2",
        "72.00 ± 0.50",
        "71.00 to 73.00",
        "91.38",
        "500,000",
        NOTHING.text,
    ]
    assert rows[2][:3] == ["teachers-sst2: single teachers", "3", "80.00 ± 1.00"]
    assert rows[3][:3] == ["teachers-sst2: the ensemble", "1", "82.50"]
    assert {len(row) for row in rows} == {len(results.names)}


def test_a_difference_that_survives_the_correction_is_bold(directory):
    (tests,) = blocks(reproduction_page(directory), "Tests")
    (row,) = tests.cells
    assert [cell.text for cell in row][3:] == [
        "+2.00", "+1.00 to +3.00",
        "0.0100", "0.0200", "+4.00", "2", "3",
    ]  # fmt: skip
    assert [cell.text for cell in row][1:3] == ["arm mean", "arm none"]
    assert row[1].strong
    assert row[3].strong


def test_the_verdict_names_what_survives_the_correction(directory, table):
    verdict, _ = blocks(reproduction_page(directory), "Differences")
    assert verdict.lines == [
        ("sst2: arm mean is better than arm none by 2.00 points (corrected p = 0.0200).", "good")
    ]
    table["tests"][0]["p_holm"] = 0.05
    (directory / "table.json").write_text(json.dumps(table))
    verdict, _ = blocks(reproduction_page(directory), "Differences")
    assert verdict.lines == [("No difference is significant after correction (tests: 1).", "plain")]


def test_a_difference_equal_for_every_seed_supports_no_verdict(directory, table):
    table["tests"][0] |= {"p_value": None, "p_holm": None, "effect_size": None}
    table["tests"][0] |= {"low": 2.0, "high": 2.0, "needed_pairs": None}
    (directory / "table.json").write_text(json.dumps(table))
    page = reproduction_page(directory)
    verdict, _ = blocks(page, "Differences")
    assert verdict.lines == [("No difference is significant after correction (tests: 1).", "plain")]
    (tests,) = blocks(page, "Tests")
    (row,) = tests.cells
    assert [cell.text for cell in row][3:] == [
        "+2.00", "+2.00 to +2.00", *[NOTHING.text] * 3, "2", NOTHING.text,
    ]  # fmt: skip
    assert not any(cell.strong for cell in row)
    (line,) = [line for line in comparison_text(table).splitlines() if "+2.00 to" in line]
    assert line.split()[-5:] == [*"---", "2", "-"]  # p, p (Holm), effect size, pairs, seeds


def test_charts_show_differences_and_score_by_size(directory):
    _, figures = blocks(reproduction_page(directory), "Differences")
    assert isinstance(figures, Figures)
    differences, sizes = figures.figures
    assert differences.rows == [("arm mean against arm none", 2.0, (1.0, 3.0), ())]
    dots = [(dot.x, dot.y, dot.name) for dot in sizes.dots]
    assert dots == [(1.0, 70.0, "arm none"), (0.5, 72.0, "arm mean")]


def test_shared_teachers_are_told_only_where_there_are_any(directory, table):
    (section,) = [s for s in reproduction_page(directory).sections if s.title == "Tests"]
    assert "share their teachers" in section.about
    (directory / "table.json").write_text(json.dumps(table | {"ensembles": []}))
    (section,) = [s for s in reproduction_page(directory).sections if s.title == "Tests"]
    assert "teachers" not in section.about


def test_right_teachers_and_failed_runs_are_told(directory):
    page = reproduction_page(directory)
    (right,) = blocks(page, "Right teachers")
    assert [cell.text for cell in right.cells[0]] == ["arm mean", "10.0", "20.0", "70.0"]
    (failed,) = blocks(page, "Failed runs")
    assert isinstance(failed, Prose)
    assert failed.lines == ["mean, seed 2: out of memory"]


def test_the_report_of_the_directory_is_that_page(directory, tmp_path):
    (page,) = report([directory])
    assert "road reproduce" in page.read_text()
    assert is_reproduction(directory)
    demo = tmp_path / "demo"
    demo.mkdir()
    (demo / "table.json").write_text("[]")
    assert not is_reproduction(demo)


@pytest.mark.parametrize("text", ["{", '{"comparison": "x"}', '{"arms": 3}'])
def test_a_damaged_table_is_named(directory, text):
    (directory / "table.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"table\.json"):
        reproduction_page(directory)


def test_the_terminal_has_both_tables(table):
    text = comparison_text(table)
    assert "72.00 ± 0.50 [71.0, 73.0] (91.38)" in text
    assert "teachers-sst2: the ensemble" in text
    assert "+1.00 to +3.00" in text
    assert "failed: mean, seed 2" in text
