"""What a run shows while it trains and evaluates."""

import itertools
from types import SimpleNamespace

import pytest

from road_ray.training.monitoring import metrics_journal
from road_ray.training.monitoring.metrics_journal import Console, summary

TRAINING = {"train/sst2": 0.5} | {f"train/teacher_{n}": float(n) for n in range(9)}
SPEED = {"time/tokens_per_second": 1234.5, "time/examples_per_second": 10.0}


@pytest.mark.parametrize(
    ("metrics", "line"),
    [
        (
            {"train/generator": 7.31249, "time/step_seconds": 0.5, "grad_norm": 1.0, **SPEED},
            "generator 7.312  1,234 tokens/s",
        ),
        (
            TRAINING | SPEED,
            "sst2 0.5  1,234 tokens/s  teacher_0 0  teacher_1 1  teacher_2 2  teacher_3 3",
        ),
        (
            {"eval/a/f1": 50.0, "eval/a/HasAns_f1": 1.0, "eval/a/total": 3, "eval/a/best_f1": 60},
            "eval/a/f1 50  eval/a/best_f1 60",
        ),
        ({"eval/a/threshold": -1.0, "eval/a/no_answer_recall": 9.0}, ""),
    ],
)
def test_a_summary_has_loss_speed_four_more_and_evaluations_without_details(metrics, line):
    assert summary(metrics) == line


def test_lines_come_first_last_at_evaluations_and_every_so_often(capsys, monkeypatch):
    now = itertools.count(0)
    monkeypatch.setattr(metrics_journal, "EVERY_SECONDS", 6)
    monkeypatch.setattr(metrics_journal, "time", SimpleNamespace(monotonic=lambda: 2.0 * at))
    console = Console("plain", 20)
    for step in (1, 2, 3, 4, 5, 6, 20):
        at = next(now)
        console.show(step, {"train/a": float(step)})
        if step == 5:
            console.show(step, {"eval/b": 0.5})
    assert capsys.readouterr().err.splitlines() == [
        "step 1/20  a 1",
        "step 4/20  a 4  eta 0:00:32",
        "step 5/20  eval/b 0.5  eta 0:00:30",
        "step 20/20  a 20",
    ]


def test_a_long_evaluation_is_told_with_the_time_left_and_a_short_one_not(capsys, monkeypatch):
    at = 0.0
    monkeypatch.setattr(metrics_journal, "time", SimpleNamespace(monotonic=lambda: at))
    console = Console("plain")
    for second, done in zip((0.0, 5.0, 10.0, 12.0, 20.0), (0, 64, 128, 192, 256), strict=True):
        at = second
        console.part("evaluating squad_v2", done, 512)
    for second, done in ((30.0, 64), (31.0, 128)):
        at = second
        console.part("evaluating sst2", done, 128)
    assert capsys.readouterr().err.splitlines() == [
        "evaluating squad_v2 128/512  eta 0:00:30",
        "evaluating squad_v2 256/512  eta 0:00:20",
    ]


@pytest.mark.parametrize(("kind", "shown"), [(None, True), ("quiet", False)])
def test_lines_are_written_unless_it_is_quiet(capsys, kind, shown):
    console = Console(kind, 5)
    console.show(1, {"train/a": 1.0})
    console.part("evaluating", 1, 2)
    assert bool(capsys.readouterr().err) is shown
