"""The demo page has its table and the curves of its stages."""

from __future__ import annotations

import json

import pytest

from road_ray.errors import DataError
from road_ray.reporting.pages.demo_page import demo_page
from road_ray.reporting.pages.page import render
from road_ray.reporting.report import page_of

ROWS = [
    {"model": "no KD", "seeds": 2, "in domain F1": 50.0, "in domain F1 +-": 1.25},
    {"model": "<b>teacher</b>", "seeds": 1, "in domain F1": 60.0, "in domain F1 +-": None},
]


@pytest.fixture
def story(tmp_path):
    """The directory of a demo that has nothing but its table."""
    (tmp_path / "table.json").write_text(json.dumps(ROWS))
    return tmp_path


def test_the_page_needs_nothing_else_and_escapes_names(story, tmp_path):
    for stage in ("pretrain", "multitask"):
        (tmp_path / stage).mkdir()
    rows = [{"step": step, "train/generator": 9.0 - step} for step in range(3)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "pretrain" / "metrics.jsonl").write_text(lines)
    (tmp_path / "multitask" / "metrics.jsonl").write_text("")
    page = render(demo_page(story))
    assert "50.0 ± 1.2" in page
    assert "&lt;b&gt;teacher&lt;/b&gt;" in page
    assert page.count("<svg") == 1
    assert "generator loss" in page


def test_the_highest_of_a_column_is_bold(story):
    assert "<strong>60.0</strong>" in render(demo_page(story))


def test_stages_that_left_no_journal_are_left_out(story):
    assert [section.title for section in demo_page(story).sections] == ["Models"]


def test_a_demo_is_known_by_its_table(story):
    assert page_of([story]).kicker == "road demo"


@pytest.mark.parametrize("content", ["", "null", "[]", "[1]", "{}"])
def test_a_damaged_table_is_named(tmp_path, content):
    (tmp_path / "table.json").write_text(content)
    with pytest.raises(DataError, match=r"table\.json: "):
        demo_page(tmp_path)
