"""Groups of seeds are compared with a paired test."""

from __future__ import annotations

import pytest

from road_ray.errors import ConfigError
from road_ray.reporting.pages.comparison_page import (
    compare_page,
    paired_against,
    runs_table,
)
from road_ray.reporting.pages.page import Figures, Table, Verdict, render
from road_ray.reporting.plots.chart import Intervals
from road_ray.reporting.records.run_groups import group_runs
from road_ray.reporting.records.run_record import read_run


@pytest.fixture
def runs(write_run, tmp_path):
    made = [
        write_run(
            tmp_path / f"none-{seed}", seed=seed, f1=60.0 + seed, distillation={"temperature": 1.0}
        )
        for seed in (1, 2, 3)
    ]
    made += [
        write_run(tmp_path / f"kd-{seed}", seed=seed, f1=62.0 + seed + gain)
        for seed, gain in ((1, 0.1), (2, 0.0), (3, -0.1))
    ]
    return [read_run(path) for path in made]


def test_runs_that_differ_in_their_seed_are_one_group(runs):
    assert [(group.name, len(group.runs)) for group in group_runs(runs)] == [("none", 3), ("kd", 3)]


def test_the_paired_test_is_over_shared_seeds(runs):
    none, kd = group_runs(runs)
    test = paired_against(kd, none, "eval/squad_v2/f1")
    assert test.pairs == 3
    assert test.difference == pytest.approx(2.0)
    assert test.p_value < 0.001  # t = 2 / (0.1 / sqrt 3) = 34.6 with two degrees of freedom
    assert paired_against(kd, group_runs(runs[:1])[0], "eval/squad_v2/f1") is None


def result(page, number: int = 0):
    """The blocks of a section by their type."""
    return {type(block): block for block in page.sections[number].blocks}


def test_real_rows_come_first_with_deviation_and_p_and_papers_are_folded(runs):
    page = compare_page(runs, "folder")
    table, papers = [b for b in page.sections[0].blocks if isinstance(b, Table)]
    assert [[cell.text for cell in row] for row in table.cells] == [
        ["none", "3", "62.00 ± 1.00"],
        ["kd", "3", "64.00 ± 0.90"],
    ]
    assert table.rows[1][2].remark == "+2.00, p < 0.001, n = 3"
    assert table.rows[1][2].strong
    assert not table.folded
    assert papers.folded.startswith("published results")
    texts = [[cell.text for cell in row] for row in papers.cells]
    assert ["Weighted KD, W = 0.75", "ROaD-ELECTRA", "91.50"] in texts
    html = render(page)
    assert html.index("64.00 ± 0.90") < html.index("<details") < html.index("91.50")
    assert "temperature" in html


def test_the_verdict_is_in_words(runs, write_run, tmp_path):
    (verdict,) = result(compare_page(runs, "f"))[Verdict].lines
    assert verdict == (
        "kd: better than none (+2.00 F1, p < 0.001, paired t-test over 3 seeds).",
        "good",
    )
    for seed, gain in ((1, 1.0), (2, -1.0), (3, 0.1)):
        write_run(tmp_path / f"tie-{seed}", seed=seed, f1=60.0 + seed + gain, init="elsewhere")
    more = [read_run(tmp_path / f"tie-{seed}") for seed in (1, 2, 3)]
    (line, state) = result(compare_page([*runs[:3], *more], "f"))[Verdict].lines[0]
    assert line.startswith("tie: no difference from none at 3 seeds (+0.03 F1, p = 0.9")
    assert state == "plain"


def test_a_difference_equal_for_every_seed_is_no_verdict_and_not_bold(write_run, tmp_path):
    for seed, right in ((1, 240), (2, 241)):  # of 300 rows; the differences are an ulp apart
        write_run(tmp_path / f"none-{seed}", seed=seed, f1=100 * right / 300)
        write_run(tmp_path / f"kd-{seed}", seed=seed, f1=100 * (right + 1) / 300, init="elsewhere")
    page = compare_page([read_run(path) for path in sorted(tmp_path.iterdir())], "f")
    assert result(page)[Verdict].lines == [
        ("kd: +0.33 F1 against none for every seed alike.", "plain")
    ]
    table = next(block for block in page.sections[0].blocks if isinstance(block, Table))
    (kd,) = [row for row in table.rows if row[0].text == "kd"]
    assert (kd[2].remark, kd[2].strong) == ("+0.33, equal for every seed, n = 2", False)


def test_dots_have_error_bars_and_every_seed(runs):
    (figure,) = result(compare_page(runs, "f"))[Figures].figures
    assert isinstance(figure, Intervals)
    assert figure.rows[0] == ("none", 62.0, (61.0, 63.0), [61.0, 62.0, 63.0])


def test_cut_runs_do_not_stand_beside_papers(write_run, tmp_path):
    data = {"dataset": "squad_v2", "max_judged_rows": 400}
    runs = [read_run(write_run(tmp_path / f"a-{n}", seed=n, data=data)) for n in (1, 2)]
    html = render(compare_page(runs, "f"))
    assert "Weighted KD, W = 0.75" not in html
    assert "Not comparable with published results: judged on at most 400 rows." in html


def test_another_baseline_may_be_named(runs):
    table = result(compare_page(runs, "folder", baseline="kd"))[Table]
    page = compare_page(runs, "folder", baseline="kd")
    tables = [block for block in page.sections[0].blocks if isinstance(block, Table)]
    assert table.folded
    assert "difference from kd" in tables[0].note
    assert tables[0].rows[0][2].remark == "-2.00, p < 0.001, n = 3"


def test_the_baseline_may_be_a_run_of_a_group(runs):
    (line, _) = result(compare_page(runs, "folder", baseline="kd-2"))[Verdict].lines[0]
    assert line.startswith("none: worse than kd (-2.00 F1")


@pytest.mark.parametrize(("name", "near"), [("nnoe", "none"), ("kd-2O", "kd-2")])
def test_an_unknown_baseline_is_answered_with_the_groups_and_the_nearest(runs, name, near):
    with pytest.raises(
        ConfigError, match=f"--baseline {name}: no such group; did you mean"
    ) as error:
        compare_page(runs, "folder", baseline=name)
    assert f"{near!r}?\n  allowed: none, kd\n" in str(error.value)


def test_a_run_of_the_name_in_two_groups_is_no_baseline(write_run, tmp_path):
    paths = [write_run(tmp_path / init / "student-1", seed=1, init=init) for init in ("a", "b")]
    runs = [read_run(path) for path in paths]
    with pytest.raises(ConfigError, match="2 groups have such a run"):
        compare_page(runs, "folder", baseline="student-1")
    assert compare_page(runs, "folder", baseline=str(paths[1]))


def test_a_setting_in_which_all_agree_is_not_told(runs):
    (differences,) = [s for s in compare_page(runs, "f").sections if s.title == "Differences"]
    assert differences.blocks[0].names == ["", "none", "kd"]
    assert [row[0] for row in differences.blocks[0].rows] == [
        "distillation.temperature",
        "distillation.host",
        "distillation.lookahead",
    ]


def test_seeds_that_differ_are_not_paired(write_run, tmp_path):
    first = write_run(tmp_path / "a", seed=1, f1=60.0)
    other = write_run(tmp_path / "b", seed=2, f1=61.0, init="elsewhere")
    page = compare_page([read_run(first), read_run(other)], "f")
    table = next(block for block in page.sections[0].blocks if isinstance(block, Table))
    assert table.rows[1][2].remark == "+1.00, no two seeds in common"


def test_runs_link_to_their_pages(runs, tmp_path):
    (tmp_path / "none-1" / "report.html").write_text("a page")
    rows = runs_table(runs, tmp_path / "elsewhere").rows
    assert rows[0][0].link == "../none-1/report.html"
    assert rows[1][0].link == ""


def test_the_students_without_teachers_are_the_baseline(write_run, tmp_path):
    runs = [
        read_run(write_run(tmp_path / f"student-{rule}-{seed}", seed=seed, init=rule))
        for rule in ("mean", "none")
        for seed in (1, 2)
    ]
    (line, _) = result(compare_page(runs, "f"))[Verdict].lines[0]
    assert line.startswith("student-mean: ")
    assert "student-none" in line
