"""Pages of groups of runs and of experiments: metrics with intervals, tests, published metrics."""

import json
import re

import pytest

from road_ray.errors import CheckpointError
from road_ray.reporting.pages.comparison_page import compare_page, comparison_text, experiment_page
from road_ray.reporting.pages.page import NOTHING, render
from road_ray.reporting.records.comparison_table import (
    group_runs,
    published_line,
    read_table,
)
from road_ray.reporting.records.run_record import read_run
from road_ray.reporting.report import page_of


@pytest.fixture
def run(write_run, tmp_path):
    """``run(name, **settings)``: a finished run."""
    return lambda name, **settings: read_run(write_run(tmp_path / name, **settings))


@pytest.fixture
def runs(run):
    kept = {"distillation": {"temperature": 1.0}}
    none = [run(f"none-{seed}", seed=seed, f1=60.0 + seed, **kept) for seed in (1, 2, 3)]
    gains = ((1, 0.1), (2, 0.0), (3, -0.1))
    return none + [run(f"kd-{seed}", seed=seed, f1=62.0 + seed + gain) for seed, gain in gains]


def blocks(page, title):
    (section,) = [one for one in page.sections if one.title == title]
    return section.blocks


def verdict(page):
    return [(line.text, line.state) for line in blocks(page, "Results on squad_v2")[0]]


def names(plot):
    return [label.get_text() for label in plot.axes.get_yticklabels()]


def texts(table):
    return [[cell.text for cell in row] for row in table.cells]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (("none-{}", "kd-{}"), ["none", "kd"]),
        (("mrpc/seed-{}",), ["mrpc"]),
        (("run{}",), ["run0 and 1 more"]),
        (("a/seed-{}/sst2", "b/seed-{}/sst2"), ["a/sst2", "b/sst2"]),  # its number is no seed
    ],
)
def test_runs_that_differ_in_their_seed_are_one_group_named_without_it(run, paths, names):
    made = [
        run(path.format(n), seed=n, init=f"{path}/seed-{n}", training={"mirror": f"s3://b/{path}/{n}"})
        for path in paths for n in (0, 1)
    ]  # fmt: skip
    groups = group_runs(made)
    assert [(name, len(runs)) for name, runs in groups.items()] == [(name, 2) for name in names]


def test_groups_stand_with_interval_papers_settings_and_paired_test(runs):
    page = compare_page(runs, "folder")
    _, _, table, papers = blocks(page, "Results on squad_v2")
    assert texts(table) == [  # t of 95% and two degrees of freedom: 4.303
        ["none", "3", "62.00 ± 1.00", "59.52 to 64.48"],
        ["kd", "3", "64.00 ± 0.90", "61.76 to 66.24"],
    ]
    assert papers.startswith("Published F1: 91.5 Weighted KD, W = 0.75 · ")
    (differences,) = blocks(page, "Differences")  # in the settings, without those that agree
    assert differences.names == ["", "none", "kd"]
    assert [row[0] for row in differences.rows] == [
        *("distillation.temperature", "distillation.host", "distillation.lookahead")
    ]
    tests, figures = blocks(page, "Tests")  # over shared seeds
    (row,) = texts(tests)
    # t = 2 / (0.1 / sqrt 3) = 34.6 with two degrees of freedom: p = 0.0008
    assert row[:7] == [
        *("squad_v2", "kd", "none", "+2.00", "+1.75 to +2.25"),
        *("0.0008", "0.0008"),
    ]
    (differences,) = figures
    assert names(differences) == ["kd against none"]
    assert [text.get_text() for text in differences.axes.texts] == ["2"]
    one = compare_page([*runs[:1], *runs[3:]], "folder")
    assert [s.title for s in one.sections if s.title == "Tests"] == []


def test_runs_of_one_seed_are_values_of_their_own_without_a_pair(run, runs):
    page = compare_page([*runs, run("kd-4", seed=1, f1=70.0)], "folder")
    assert texts(blocks(page, "Results on squad_v2")[2])[1][:3] == ["kd", "3", "65.50 ± 3.09"]
    assert texts(blocks(page, "Tests")[0])[0][8] == "2"


def test_the_verdict_is_in_words(run, runs):
    line, state = verdict(compare_page(runs, "f"))[0]
    assert line == "kd is better than none by 2.00 F1 (corrected p = 0.0008, 3 seeds)."
    assert state == "good"
    more = [
        run(f"tie-{seed}", seed=seed, f1=60.0 + seed + gain, init="elsewhere")
        for seed, gain in ((1, 1.0), (2, -1.0), (3, 0.1))
    ]
    tie = [("No difference is significant after correction (tests: 1).", "plain")]
    assert verdict(compare_page([*runs[:3], *more], "f")) == tie


def test_a_difference_equal_for_every_seed_is_no_verdict_and_not_bold(write_run, tmp_path):
    for seed, right in ((1, 240), (2, 241)):  # of 300 rows; the differences are an ulp apart
        write_run(tmp_path / f"none-{seed}", seed=seed, f1=100 * right / 300)
        write_run(tmp_path / f"kd-{seed}", seed=seed, f1=100 * (right + 1) / 300, init="elsewhere")
    page = compare_page([read_run(path) for path in sorted(tmp_path.iterdir())], "f")
    assert verdict(page)[0][1] == "plain"
    tests, _ = blocks(page, "Tests")
    (row,) = tests.cells
    shown = ["+0.33", "+0.33 to +0.33", *[NOTHING.text] * 3, "2", NOTHING.text]
    assert [cell.text for cell in row][3:] == shown
    assert not any(cell.strong for cell in row)


def test_cut_runs_do_not_stand_beside_papers(run):
    data = {"dataset": "squad_v2", "max_judged_rows": 400}
    html = render(compare_page([run(f"a-{n}", seed=n, data=data) for n in (1, 2)], "f"))
    assert "Weighted KD, W = 0.75" not in html
    assert "Not comparable with published results: judged on at most 400 rows." in html


def test_the_baseline_are_the_students_without_teachers_else_the_first_group(run):
    pairs = [run(f"{i}/student-{i}-{n}", seed=n, init=i) for i in ("mean", "none") for n in (1, 2)]
    tests, _ = blocks(compare_page(pairs, "f"), "Tests")
    assert texts(tests)[0][1:3] == ["student-mean", "student-none"]
    others = [run(f"{i}-{n}", seed=n, init=i) for i in ("kd", "ce") for n in (1, 2)]
    tests, _ = blocks(compare_page(others, "f"), "Tests")
    assert texts(tests)[0][1:3] == ["ce", "kd"]


def test_groups_without_a_curve_are_told_and_runs_link_to_their_pages(run, runs, tmp_path):
    ((plot,),) = blocks(
        compare_page([run(f"r-{n}", init=f"m{n}") for n in range(9)], "f"), "Curves"
    )
    assert (len(plot.axes.lines), plot.note) == (8, "The first 8 of 9 groups.")
    (tmp_path / "none-1" / "report.html").write_text("a page")
    page = compare_page(runs, "folder")
    assert '<td><a href="../none-1/report.html">none-1</a></td>' in render(page, tmp_path / "pages")
    assert "<td>none-2</td>" in render(page, tmp_path / "pages")
    made = [run(f"{arm}/seed-0/student", seed=1000, init=arm) for arm in ("none", "mean")]
    (table,) = blocks(compare_page(made, "f"), "Runs")  # equal names are told apart
    named = [["none/seed-0/student", "distill", "1000"], ["mean/seed-0/student", "distill", "1000"]]
    assert [row[:3] for row in texts(table)] == named


def arm(name, mean, parameters=1_000_000, right=None, published=None):
    figure = {"mean": mean, "deviation": 0.5, "low": mean - 1.0, "high": mean + 1.0}
    figure |= {"values": {"0": mean - 0.5, "1": mean + 0.5}, "published": published}
    return {
        "name": name,
        "about": f"arm {name}",
        "seeds": [0, 1],
        "figures": {"sst2/accuracy": figure},
        "parameters": parameters,
        "teachers_right": right,
    }


@pytest.fixture
def directory(tmp_path):
    """The directory of a comparison."""
    test = {"data_set": "sst2", "metric": "accuracy", "arm": "mean", "against": "none"}
    test |= {"difference": 2.0, "low": 1.0, "high": 3.0, "p_value": 0.01, "effect_size": 4.0}
    test |= {"pairs": 2, "needed_pairs": 3, "p_holm": 0.02}
    alone, together = arm("teachers-sst2: single teachers", 80.0), arm("the ensemble", 82.5)
    together |= {"seeds": [0], "figures": {"sst2/accuracy": {"mean": 82.5}}}
    table = {
        "comparison": "low_resource",
        "about": "few labels",
        "source": "no published table",
        "data_sets": {"sst2": ["accuracy"]},
        "arms": [arm("none", 70.0), arm("mean", 72.0, 500_000, [0.1, 0.2, 0.7], 91.38)],
        "teachers": [alone, together],
        "tests": [test],
        "failed": [{"arm": "mean", "seed": 2, "error": "out of memory"}],
    }
    (tmp_path / "table.json").write_text(json.dumps(table, indent=2))
    return tmp_path


def test_an_experiment_has_figures_tests_right_teachers_and_failed_runs(directory):
    page = page_of([directory])
    assert page.title == "low resource"
    _, figures, results = blocks(page, "Results on sst2")
    rows = texts(results)
    assert rows[1] == [*("arm mean", "2", "72.00 ± 0.50", "71.00 to 73.00", "91.38", "500,000")]
    assert rows[2][:3] == ["arm teachers-sst2: single teachers", "2", "80.00 ± 0.50"]
    assert rows[3][:3] == ["arm the ensemble", "1", "82.50"]
    assert {len(row) for row in rows} == {len(results.names)}
    assert names(figures[0]) == ["arm none", "arm mean"]
    tests, figures = blocks(page, "Tests")
    (row,) = tests.cells
    assert [cell.text for cell in row][1:] == [
        *("arm mean", "arm none", "+2.00", "+1.00 to +3.00", "0.0100", "0.0200", "+4.00", "2", "3")
    ]
    assert (row[1].strong, row[3].strong) == (True, True)  # it survives the correction
    assert names(figures[0]) == ["arm mean against arm none"]
    (right,) = blocks(page, "Right teachers")
    assert texts(right)[0] == ["arm mean", "10.0", "20.0", "70.0"]
    (failed,) = blocks(page, "Failed runs")
    assert failed == ["mean, seed 2: out of memory"]
    text = comparison_text(read_table(directory))  # in the terminal
    assert re.search("arm mean +2 +72.00 ± 0.50 +71.00 to 73.00", text)
    for told in ("arm the ensemble", "+1.00 to +3.00", "failed: mean, seed 2"):
        assert told in text


@pytest.mark.parametrize("text", ["{", '{"comparison": "x"}', '{"arms": 3}', "[]"])
def test_a_damaged_table_is_named(directory, text):
    (directory / "table.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"(?s)table\.json: .*delete it and metrics\.json"):
        experiment_page(directory)


def test_the_highest_published_result_stands_first():
    assert published_line("newsqa", "f1") == "60.4 ROaD-Large · 58.0 ELECTRA-Large"
    assert published_line("nothing", "f1") == ""
