"""The demo page has its table and the curves of its stages."""

from __future__ import annotations

import json

import pytest

from road_ray.errors import DataError
from road_ray.reporting.pages.demo_page import demo_page
from road_ray.reporting.pages.page import Command, Flow, render
from road_ray.reporting.report import page_of

ROWS = [
    {"model": "no KD", "seeds": 2, "accuracy": 50.0, "accuracy +-": 1.25},
    {"model": "<b>teacher</b>", "seeds": 1, "accuracy": 60.0, "accuracy +-": None},
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


def students(write_run, folder, scores):
    """The students of a demo, with these accuracies by rule, for seeds 100 and on."""
    for rule, values in scores.items():
        for seed, accuracy in enumerate(values, start=100):
            path = write_run(folder / f"student-{rule}-{seed}", seed=seed, init=rule)
            (path / "metrics.json").write_text(json.dumps({"eval/sst2/accuracy": accuracy}))
            (path / "report.html").write_text("a page")


def test_the_verdict_of_a_tie_is_no_difference_and_nothing_is_bold(story, write_run):
    students(write_run, story, {"none": [41.0, 43.0, 42.0], "correctness": [42.5, 42.0, 42.1]})
    html = render(demo_page(story, story))
    assert "Weighted KD: no difference from no KD at 3 seeds (+0.20 accuracy, p = 0.8" in html
    assert "<strong>" not in html
    assert html.count("bar-error") >= 1
    assert '<a href="student-correctness-101/report.html">101</a>' in html


def test_a_figure_that_differs_is_bold(tmp_path, write_run):
    rows = [
        {"model": "no KD", "seeds": 3, "accuracy": 42.0, "accuracy +-": 1.0},
        {"model": "Weighted KD", "seeds": 3, "accuracy": 44.0, "accuracy +-": 1.0},
    ]
    (tmp_path / "table.json").write_text(json.dumps(rows))
    students(write_run, tmp_path, {"none": [41.0, 43.0, 42.0], "correctness": [43.1, 45.0, 43.9]})
    html = render(demo_page(tmp_path))
    assert "<strong>44.0 ± 1.0</strong>" in html
    assert "Weighted KD: better than no KD" in html


def test_a_difference_equal_for_every_seed_is_not_bold(tmp_path, write_run):
    rows = [{"model": name, "seeds": 2, "accuracy": 42.0} for name in ("no KD", "Weighted KD")]
    (tmp_path / "table.json").write_text(json.dumps(rows))
    gained = [100 * right / 300 for right in (241, 242)]
    students(write_run, tmp_path, {"none": [80.0, 100 * 241 / 300], "correctness": gained})
    html = render(demo_page(tmp_path))
    assert "Weighted KD: +0.33 accuracy against no KD for every seed alike." in html
    assert "<strong>" not in html


def test_the_stages_are_a_diagram_and_the_next_commands_are_valid(story, write_run):
    import shlex

    from road_ray.verbs import configure

    (story / "pretrain").mkdir()
    (story / "pretrain" / "metrics.jsonl").write_text("")
    page = demo_page(story)
    (flow,) = [b for s in page.sections for b in s.blocks if isinstance(b, Flow)]
    assert [stage.title.split()[-1] for stage in flow.stages] == [
        *("Pre-training", "Multi-task", "Teachers", "Students", "Evaluation")
    ]
    commands = [b.text for s in page.sections for b in s.blocks if isinstance(b, Command)]
    verbs = [shlex.split(text) for text in commands if text.startswith("road ")]
    for _, verb, *words in verbs:
        assert configure(verb, overrides=[word for word in words if "=" in word])
    assert len(verbs) == 3


def test_stages_that_left_no_journal_are_left_out(story):
    assert [section.title for section in demo_page(story).sections] == [
        *("Models", "What to try next")
    ]


def test_a_demo_is_known_by_its_table(story):
    assert page_of([story]).kicker == "road demo"


@pytest.mark.parametrize("content", ["", "null", "[]", "[1]", "{}"])
def test_a_damaged_table_is_named(tmp_path, content):
    (tmp_path / "table.json").write_text(content)
    with pytest.raises(DataError, match=r"table\.json: "):
        demo_page(tmp_path)
