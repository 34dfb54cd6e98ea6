"""When the deadline of a start strikes, and when not; on a cluster it is in ``test_launch.py``."""

from __future__ import annotations

import os
import time

import pytest
from ray.train.v2._internal.execution.controller.state import RunningState

from road_ray.distributed.ray_private import SchedulingState
from road_ray.distributed.train.start_timeout import StartDeadline


@pytest.fixture
def ended(monkeypatch):
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


def test_a_start_that_does_not_end_ends_the_controller(ended):
    deadline = StartDeadline(0.02)
    deadline.after_controller_state_update(None, SchedulingState(None))
    give_up = time.monotonic() + 10
    while not ended and time.monotonic() < give_up:
        time.sleep(0.01)
    assert ended == [1]


def test_a_start_that_ends_does_not(ended):
    deadline = StartDeadline(0.2)
    deadline.after_controller_state_update(None, SchedulingState(None))
    deadline.after_controller_state_update(None, RunningState())
    time.sleep(0.3)
    assert ended == []


def test_every_start_has_its_own_deadline(ended):
    deadline = StartDeadline(0.2)
    for _ in range(4):
        deadline.after_controller_state_update(None, SchedulingState(None))
        time.sleep(0.1)
    assert ended == []
    deadline.after_controller_state_update(None, RunningState())
