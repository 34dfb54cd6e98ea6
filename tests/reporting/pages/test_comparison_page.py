"""Groups of seeds are compared with a paired test."""

from __future__ import annotations

import pytest

from road_ray.reporting.pages.comparison_page import compare_page, group_runs, paired_against
from road_ray.reporting.pages.page import Table, render
from road_ray.reporting.run_record import read_run


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


def test_the_table_has_mean_deviation_p_and_the_papers(runs):
    page = compare_page(runs, "folder")
    table = page.sections[0].blocks[0]
    texts = [[cell.text for cell in row] for row in table.cells]
    assert texts[0][:3] == ["none", "3", "62.00 ± 1.00"]
    assert texts[1][2] == "64.00 ± 0.90"
    assert texts[1][3] == "+2.00, p < 0.001, n = 3"
    assert table.rows[1][3].strong
    assert ["Weighted KD, W = 0.75 (ROaD-ELECTRA)", "paper", "91.50", ""] in texts
    assert "temperature" in render(page)


def test_another_baseline_may_be_named(runs):
    table = compare_page(runs, "folder", baseline="kd").sections[0].blocks[0]
    assert isinstance(table, Table)
    assert table.names[3] == "F1: against kd"


def test_a_setting_in_which_all_agree_is_not_told(runs):
    (differences,) = [s for s in compare_page(runs, "f").sections if s.title == "Differences"]
    assert list(differences.blocks[0].names)[1:] == [
        "distillation.temperature",
        "distillation.host",
        "distillation.lookahead",
    ]


def test_seeds_that_differ_are_not_paired(write_run, tmp_path):
    one = write_run(tmp_path / "a", seed=1, f1=60.0)
    other = write_run(tmp_path / "b", seed=2, f1=61.0, init="elsewhere")
    table = compare_page([read_run(one), read_run(other)], "f").sections[0].blocks[0]
    assert table.rows[1][3].text == "+1.00, no test: no two seeds in common"
