"""Verdicts of health checks; time splits against hand-computed values; advice names the key."""

from pathlib import Path

import pytest

from road_ray.reporting.health import (
    DATA,
    MODEL,
    TEACHERS,
    advice,
    checks,
    time_split,
)
from road_ray.reporting.records.run_record import RunRecord, read_run


def states(run: RunRecord) -> dict[str, str]:
    return {name: reading.state for name, reading, _ in checks(run)}


def test_a_run_that_learnt_to_be_silent(run_directory):
    found = {name: (reading, about) for name, reading, about in checks(read_run(run_directory))}
    assert found["abstains on squad_v2"][0].state == "bad"
    assert "abstain, not to answer" in found["abstains on squad_v2"][1]
    assert found["squad_v2 loss"][0].state == "good"
    assert found["clipped"][0].state == "fair"
    assert found["teachers divided"][0].text == "50.0%"
    assert found["all teachers wrong"][0].text == "10%"


@pytest.mark.parametrize(
    ("rows", "name", "state"),
    [
        ([{"train/a": None}, {"train/a": 1.0}], "finite", "bad"),
        ([{"train/a": float(n)} for n in range(1, 9)], "a loss", "bad"),
        ([{"train/detection_auc": 0.51}], "detection", "bad"),
        ([{"train/detection_auc": 0.9}], "detection", "good"),
        ([{"train/replaced_fraction": 0.01}], "replaced", "fair"),
        ([{"train/generator_entropy": 0.01}], "generator entropy", "bad"),
        ([{"train/generator_entropy": 3.0}], "generator entropy", "good"),
    ],
)
def test_readings(rows, name, state):
    numbered = [{"step": step, **row} for step, row in enumerate(rows)]
    assert states(RunRecord(Path("r"), rows=numbered))[name] == state


def test_rows_that_were_trained_on_and_judged_are_bad_and_what_misleads_in_the_table_is_a_check():
    metrics = {"data/sst2/overlap_with_train": 3.0, "eval/cola/truncated_rows": 12.0}
    expected = {"overlap on sst2": "bad", "predictions on cola": "fair"}
    assert states(RunRecord(Path("r"), metrics=metrics)) == expected
    assert checks(RunRecord(Path("r"))) == []


def test_waiting_for_teachers_is_taken_out_of_the_time_for_data(run_directory):
    split = time_split(read_run(run_directory))
    assert [*split.values()] == pytest.approx([0.1, 0.4, 0.5])
    assert time_split(RunRecord(Path("r"), rows=[{"step": 1}])) == {}


@pytest.mark.parametrize(
    ("split", "settings", "message"),
    [
        ((0.0, 0.5, 0.5), {"host": "process"}, "distillation.host=actors"),
        ((0.0, 0.5, 0.5), {"host": "actors"}, "replica"),
        ((0.0, 0.2, 0.8), {"host": "actors", "lookahead": 2}, "distillation.lookahead"),
        ((0.0, 0.2, 0.8), {"host": "actors"}, "distillation.answers=once"),
        ((0.3, 0.0, 0.7), {}, "data.max_length_tokens"),
        ((0.0, 0.0, 1.0), {}, "No bottleneck"),
    ],
)
def test_the_bottleneck_is_named(split, settings, message):
    run = RunRecord(Path("r"), config={"distillation": settings})
    parts = dict(zip((DATA, TEACHERS, MODEL), split, strict=True))
    assert message in " ".join(advice(run, parts))
