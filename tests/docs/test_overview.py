"""The overview of the results is what its script makes of the stored figures."""

from __future__ import annotations

import json
import re
import runpy

import pytest

from tests.docs.blocks import ROOT

RESULTS = ROOT / "docs" / "results"
SCRIPT = runpy.run_path(str(RESULTS / "overview.py"), run_name="overview")
FIGURES = json.loads((RESULTS / "overview.json").read_text("utf-8"))


def test_the_page_has_the_table_of_the_stored_figures():
    page = (RESULTS / "README.md").read_text("utf-8")
    assert SCRIPT["with_table"](page, FIGURES) == page
    assert "@@" not in page


def test_each_picture_of_the_page_is_there():
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (RESULTS / "README.md").read_text("utf-8"))
    assert len(pictures) == 3
    assert all((RESULTS / name).stat().st_size > 5000 for name in pictures)


def test_paired_scores_a_p_value_and_deviations_give_the_same_interval():
    left, right = [3.0, 5.0, 7.0], [2.0, 3.0, 4.0]  # deviation of differences 1
    effect, p_value = SCRIPT["effect"], 0.0741799
    paired = effect({"left": left, "right": right})
    assert (paired.difference, paired.deviation) == (2.0, pytest.approx(1.0))
    assert paired.high - paired.difference == pytest.approx(4.302653 / 3**0.5)
    tested = effect({"difference": 2.0, "p_value": p_value, "seeds": 3})
    assert (tested.low, tested.high) == pytest.approx((paired.low, paired.high), abs=1e-4)
    assert tested.deviation == pytest.approx(1.0, abs=1e-4)
    apart = effect({"left": [5.0, 3.0], "right": [3.0, 4.0], "seeds": 5})  # deviation 5, 8 degrees
    assert apart.high - apart.difference == pytest.approx(2.306004 * 5 / 5**0.5)


@pytest.mark.parametrize(
    ("low", "high", "published", "word"),
    [
        (0.5, 1.5, 2.0, "agrees"),
        (0.5, 1.5, -2.0, "disagrees"),
        (-1.5, -0.5, -2.0, "agrees"),
        (-0.5, 1.5, 2.0, "cannot tell"),
    ],
)
def test_a_direction_needs_an_interval_without_zero(low, high, published, word):
    first = SCRIPT["Effect"]((low + high) / 2, low, high, 1.0)
    assert SCRIPT["verdict"](first, published) == word
