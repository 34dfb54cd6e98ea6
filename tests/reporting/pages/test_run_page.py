"""The run page has a section for each recorded subject, and no empty ones."""

from __future__ import annotations

import json

import pytest

from road_ray.reporting.pages.page import render
from road_ray.reporting.pages.run_curves import curves
from road_ray.reporting.pages.run_page import clock, headline, run_page
from road_ray.reporting.run_record import read_run


def titles(directory):
    return [section.title for section in run_page(read_run(directory)).sections]


def test_every_part_of_a_distillation_is_there(run_directory):
    assert titles(run_directory) == [
        *("Result", "Curves", "Health", "Time", "Teachers", "Faults", "Lineage", "Set-up")
    ]
    html = render(run_page(read_run(run_directory)))
    assert "None recorded." in html
    assert "91.5 Weighted KD, W = 0.75" in html
    assert "3 of 3 right" in html


def test_a_run_that_has_only_begun_says_so(run_directory):
    for name in ("metrics.json", "metrics.jsonl"):
        (run_directory / name).unlink()
    page = run_page(read_run(run_directory))
    assert "Not finished" in page.about
    assert "No final figures." in render(page)


def test_faults_are_listed(run_directory):
    event = {"time": "2026-01-02T03:04:05.678+00:00", "kind": "teacher_replaced", "teacher": 2}
    (run_directory / "events.jsonl").write_text(json.dumps(event) + "\n")
    html = render(run_page(read_run(run_directory)))
    for said in ("2026-01-02 03:04:05", "teacher_replaced", "teacher: 2"):
        assert said in html


def test_a_loss_and_its_soft_counterpart_share_a_figure(run_directory):
    first = curves(read_run(run_directory))[0]
    assert first.title == "Loss on squad_v2 (nats)"
    assert [line.name for line in first.lines] == ["labels", "teachers"]


def test_names_of_others_stay_text(write_run, tmp_path):
    evil = "<script>alert(1)</script>"
    run = read_run(write_run(tmp_path / "r", data={"dataset": evil}, init=evil))
    run.rows[0][f"train/{evil}"] = run.rows[1][f"train/{evil}"] = 1.0
    html = render(run_page(run))
    assert evil not in html
    assert "&lt;script&gt;" in html


def test_the_thresholded_figure_stands_for_the_plain_one():
    metrics = {"eval/s/f1": 1.0, "eval/s/at_threshold_f1": 2.0, "eval/s/total": 3, "eval/t/f1": 4.0}
    assert headline(metrics) == {"eval/s/at_threshold_f1": 2.0, "eval/t/f1": 4.0}


@pytest.mark.parametrize(("seconds", "said"), [(95, "95 s"), (720, "12 min"), (12240, "3.4 h")])
def test_time_is_told_in_units_of_its_size(seconds, said):
    assert clock(seconds) == said
