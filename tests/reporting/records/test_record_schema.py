"""Misfits in a run's files are left out and named."""

from __future__ import annotations

from road_ray.reporting.records import record_schema as shapes


def test_misfits_are_named_and_left_out():
    settings = {"command": ["road", 5], "packages": {}, "devices": None, "python": 3}
    assert shapes.misfits(settings, shapes.ENVIRONMENT) == ["command"]
    assert shapes.fitted(settings, shapes.ENVIRONMENT) == {
        "packages": {},
        "devices": None,
        "python": 3,
    }


def test_model_facts_fit_at_any_depth():
    settings = {
        "task": "qa",
        "init": {},
        "corpus": {"tokens": True, "source": "a"},
        "teachers": [{"directory": 5, "weights_sha256": "ab"}],
        "seed": 1,
    }
    assert shapes.model_facts(settings) == {
        "task": "qa",
        "corpus": {"source": "a"},
        "teachers": [{"weights_sha256": "ab"}],
        "seed": 1,
    }
    assert shapes.model_facts({"teachers": [None], "datasets": "ab"}) == {}


def test_rows_without_a_step_and_figures_that_are_text_are_left_out():
    rows = [{"step": 1}, {"step": "1"}, {"step": None}, None, [1], {"loss": 2.0}]
    assert list(shapes.rows_of(rows)) == [{"step": 1}]
    assert shapes.numbers({"a": 1, "b": None, "c": "x", "d": [1]}) == {"a": 1, "b": None}
