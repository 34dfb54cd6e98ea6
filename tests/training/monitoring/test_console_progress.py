"""What people see of a run while it goes."""

from __future__ import annotations

import io

from rich.console import Console as RichConsole

from road_ray.training.monitoring.console_progress import Bar, Lines, Quiet, open_console, summary


def test_a_summary_has_losses_speeds_and_evaluations_only():
    metrics = {
        "train/generator": 7.31249,
        "time/step_seconds": 0.5,
        "time/tokens_per_second": 12345.6,
        "eval/rte/accuracy": 0.75,
        "grad_norm": 1.0,
    }
    assert summary(metrics) == "generator 7.312  12,346 tokens/s  eval/rte/accuracy 0.75"


def test_a_line_of_a_training_has_loss_speed_and_at_most_four_more():
    metrics = {"train/sst2": 0.5} | {f"train/teacher_{n}": float(n) for n in range(9)}
    metrics |= {"time/tokens_per_second": 1234.0, "time/examples_per_second": 10.0}
    metrics |= {"train/grad_norm": 1.0, "train/lr": 1e-4}
    assert summary(metrics) == (
        "sst2 0.5  1,234 tokens/s  teacher_0 0  teacher_1 1  teacher_2 2  teacher_3 3"
    )


def test_a_summary_leaves_the_details_of_an_evaluation_to_the_journal():
    metrics = {"eval/a/f1": 50.0, "eval/a/HasAns_f1": 1.0, "eval/a/total": 3, "eval/a/best_f1": 60}
    metrics |= {"eval/a/threshold": -1.0, "eval/a/no_answer_recall": 9.0}
    assert summary(metrics) == "eval/a/f1 50  eval/a/best_f1 60"


def test_lines_come_at_most_every_so_often_and_the_last_one_always(capsys):
    times = iter(range(0, 100, 2))
    lines = Lines(20, every_seconds=6, clock=lambda: next(times))
    for step in range(1, 9):
        lines.show(step, {"train/a": float(step)})
    lines.close()
    lines.close()
    err = capsys.readouterr().err.splitlines()
    assert err == [
        "step 1/20  a 1",
        "step 4/20  a 4  eta 0:00:32",
        "step 7/20  a 7  eta 0:00:26",
        "step 8/20  a 8  eta 0:00:24",
    ]


def test_the_time_left_goes_by_the_work_of_the_steps_left(capsys):
    """Eight steps of one and two of four make 16; at step 9 two seconds have made 12 of them."""
    times = iter([0, 1, 2])
    work = lambda step: step + 3.0 * max(0, step - 8)  # noqa: E731
    lines = Lines(10, every_seconds=0, clock=lambda: next(times), work=work)
    for step in (0, 1, 9):
        lines.show(step, {})
    output_lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition("eta ")[2] for line in output_lines[1:]] == ["0:00:15", "0:00:01"]


def test_an_evaluation_is_never_held_back(capsys):
    lines = Lines(None, every_seconds=100, clock=lambda: 0.0)
    lines.show(1, {"train/a": 1.0})
    lines.show(2, {"train/a": 2.0})
    lines.show(2, {"eval/b": 0.5})
    lines.close()
    assert capsys.readouterr().err.splitlines() == ["step 1  a 1", "step 2  eval/b 0.5"]


def test_a_bar_shows_steps_losses_and_keeps_evaluations():
    out = io.StringIO()
    bar = Bar(20, RichConsole(file=out, force_terminal=True, width=120, color_system=None))
    for step in range(11, 15):
        bar.show(step, {"train/a": float(step), "time/examples_per_second": 99.0})
    bar.show(14, {"eval/[rte]": 0.5})
    bar.close()
    assert "14/20" in out.getvalue()
    assert "a 14  99 examples/s" in out.getvalue()
    assert "step 14  eval/[rte] 0.5" in out.getvalue()


def test_a_narrow_bar_cuts_the_losses_and_not_the_steps_or_the_time_left():
    out = io.StringIO()
    bar = Bar(20, RichConsole(file=out, force_terminal=True, width=60, color_system=None))
    bar.show(14, {f"train/{name * 9}": 1.0 for name in "abcdef"})
    bar.close()
    assert "step 14/20 ━━━" in out.getvalue()
    assert "-:--:-- aaaaaaaaa" in out.getvalue()


def test_a_bar_is_as_full_as_the_work_that_is_done():
    bar = Bar(10, RichConsole(file=io.StringIO()), lambda step: step + 3.0 * max(0, step - 8))
    bar.show(8, {})
    (task,) = bar._progress.tasks
    assert (task.completed, task.total, task.fields["steps"]) == (8, 16, " 8/10")
    bar.show(9, {"eval/a": 1.0})
    bar.close()
    assert (task.completed, task.fields["steps"]) == (12, " 9/10")


def test_the_console_follows_the_place_it_writes_to(capsys):
    assert isinstance(open_console(None, 5, 1.0), Lines)
    assert isinstance(open_console("rich", 5, 1.0), Bar)
    quiet = open_console("quiet", 5, 1.0)
    assert isinstance(quiet, Quiet)
    quiet.show(1, {"train/a": 1.0})
    quiet.close()
    assert capsys.readouterr().err == ""


def test_an_evaluation_is_told_by_time_with_the_time_left(capsys):
    times = iter([0.0, 5.0, 10.0, 12.0, 20.0, 30.0])
    lines = Lines(None, every_seconds=10, clock=lambda: next(times))
    for done in (0, 64, 128, 192, 256, 512):
        lines.part("evaluating squad_v2", done, 512)
    assert capsys.readouterr().err.splitlines() == [
        "evaluating squad_v2  128/512  eta 0:00:30",
        "evaluating squad_v2  256/512  eta 0:00:20",
        "evaluating squad_v2  512/512  in 0:00:30",
    ]


def test_a_short_evaluation_says_nothing(capsys):
    times = iter([0.0, 1.0, 9.0, 10.0])
    lines = Lines(None, every_seconds=10, clock=lambda: next(times))
    for _ in range(2):
        for done in (64, 128):
            lines.part("evaluating sst2", done, 128)
    assert capsys.readouterr().err == ""


def test_on_a_terminal_an_evaluation_has_a_bar_of_its_own():
    out = io.StringIO()
    bar = Bar(None, RichConsole(file=out, force_terminal=True, width=100))
    bar.part("evaluating sst2", 64, 128)
    assert bar._progress.tasks[0].completed == 64
    bar._progress.refresh()
    assert "evaluating sst2" in out.getvalue()
    assert "64/128" in out.getvalue()
    bar.part("evaluating sst2", 128, 128)
    assert bar._progress.tasks == []
    bar.close()
