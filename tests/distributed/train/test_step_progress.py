"""When a worker that finishes no more steps counts as stalled."""

from __future__ import annotations

import pytest

from road_ray.distributed.train.step_progress import StepProgress


def after_steps(seconds: float, count: int = 5) -> tuple[StepProgress, float]:
    """A worker that has made its first step after 1,000 s, and more of so many seconds each."""
    progress, now = StepProgress(0.0), 1000.0
    progress.update(1, now)
    for step in range(2, count + 1):
        now += seconds
        progress.update(step, now)
    return progress, now


@pytest.mark.parametrize(("step_seconds", "limit"), [(0.5, 600.0), (60.0, 1200.0)])
def test_a_stall_is_ten_minutes_or_twenty_usual_steps(step_seconds, limit):
    progress, now = after_steps(step_seconds)
    assert progress.new_stall(now + limit) is None
    assert progress.new_stall(now + limit + 1) == limit + 1


def test_steps_between_two_heartbeats_count_each():
    progress, now = after_steps(60.0)
    for step in (205, 405, 605, 805, 1005):
        now += 60.0
        progress.update(step, now)
    assert progress.new_stall(now + 601) == 601


def test_a_stall_is_reported_once_and_the_next_one_again():
    progress, now = after_steps(0.5)
    assert progress.new_stall(now + 700) == 700
    progress.update(5, now + 800)
    assert progress.new_stall(now + 900) is None
    progress.update(6, now + 901)
    assert progress.new_stall(now + 901 + 1802) is None, "shorter than twice the pause that ended"
    assert progress.new_stall(now + 901 + 1803) == 1803


def test_what_comes_before_the_first_step_has_an_hour():
    progress = StepProgress(10.0)
    progress.update(0, 700.0)
    assert progress.new_stall(3610.0) is None
    assert progress.new_stall(3611.0) == 3601.0


def test_a_second_training_of_the_same_process_counts_its_steps_anew():
    progress, now = after_steps(0.5)
    progress.update(1, now + 5)
    assert progress.new_stall(now + 606) == 601
