"""The page stands alone, escapes what it shows, and draws what was journalled."""

from __future__ import annotations

import json

from road_ray.reporting.page import curve, write_page

ROWS = [
    {"model": "no KD", "seeds": 2, "in domain F1": 50.0, "in domain F1 +-": 1.25},
    {"model": "<b>teacher</b>", "seeds": 1, "in domain F1": 60.0, "in domain F1 +-": None},
]


def test_the_page_needs_nothing_else_and_escapes_names(tmp_path):
    for stage in ("pretrain", "multitask"):
        (tmp_path / stage).mkdir()
    rows = [{"step": step, "train/generator": 9.0 - step} for step in range(3)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "pretrain" / "metrics.jsonl").write_text(lines)
    (tmp_path / "multitask" / "metrics.jsonl").write_text("")
    page = write_page(tmp_path, ROWS).read_text()
    assert "50.0 ± 1.2" in page
    assert "&lt;b&gt;teacher&lt;/b&gt;" in page
    assert "http" not in page
    assert "<script" not in page
    assert page.count("<svg") == 1
    assert "generator loss" in page


def test_a_curve_spans_its_box():
    drawn = curve([(0, 1.0), (10, 3.0)], width=100, height=60)
    assert 'points="24.0,36.0 76.0,24.0"' in drawn
    assert "step 10" in drawn


def test_a_flat_curve_is_drawn_too():
    assert "polyline" in curve([(1, 2.0), (2, 2.0)])


def test_stages_that_left_no_journal_are_left_out(tmp_path):
    assert "<svg" not in write_page(tmp_path, ROWS).read_text()
