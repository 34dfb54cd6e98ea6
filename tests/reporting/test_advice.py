"""Time splits against hand-computed values; advice names the key to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from road_ray.reporting.advice import COMMUNICATION, DATA, MODEL, TEACHERS, advice, time_split
from road_ray.reporting.records.run_record import RunRecord, read_run


def run(**settings: object) -> RunRecord:
    return RunRecord(Path("r"), config={"distillation": settings})


def split_of(data, teachers, model, communication):
    return {DATA: data, TEACHERS: teachers, MODEL: model, COMMUNICATION: communication}


def test_waiting_for_teachers_is_taken_out_of_the_time_for_data(run_directory):
    split = time_split(read_run(run_directory))
    assert [*split.values()] == pytest.approx([0.1, 0.4, 0.5, 0.0])


def test_the_first_row_has_the_start_in_it():
    rows = [{"step": n, "time/step_seconds": 9.0 if n == 0 else 1.0} for n in range(4)]
    assert sum(time_split(RunRecord(Path("r"), rows=rows)).values()) == 1.0


def test_no_times_no_split():
    assert time_split(RunRecord(Path("r"), rows=[{"step": 1}])) is None


@pytest.mark.parametrize(
    ("split", "settings", "message"),
    [
        ((0.0, 0.5, 0.5, 0.0), {"host": "process"}, "distillation.host=actors"),
        ((0.0, 0.5, 0.5, 0.0), {"host": "actors"}, "replica"),
        ((0.0, 0.2, 0.8, 0.0), {"host": "actors", "lookahead": 2}, "lookahead (2)"),
        ((0.0, 0.2, 0.8, 0.0), {"host": "actors"}, "distillation.answers=once"),
        ((0.3, 0.0, 0.7, 0.0), {}, "data.max_length_tokens"),
        ((0.0, 0.0, 0.6, 0.4), {}, "training.passes"),
        ((0.0, 0.0, 1.0, 0.0), {}, "No bottleneck"),
    ],
)
def test_the_bottleneck_is_named(split, settings, message):
    assert message in " ".join(advice(run(**settings), split_of(*split)))


def test_so_many_replicas_are_advised_as_the_student_is_faster():
    rows = [{"step": n, "time/teacher_busy_seconds": 1.7} for n in (1, 2)]
    slow = RunRecord(Path("r"), config={"distillation": {"host": "actors"}}, rows=rows)
    sentence = advice(slow, split_of(0.1, 0.2, 0.5, 0.0))[0]
    assert "distillation.replicas=3" in sentence  # 1.7 s of work in steps of 0.6 s
