"""What is told of a worker that failed. The rest is in ``test_launch.py``."""

from __future__ import annotations

from road_ray.distributed.train.coordinator import Heartbeat
from road_ray.distributed.train.supervisor import describe_worker_failure


def test_a_process_that_was_killed_may_have_needed_memory():
    beat = Heartbeat(0.0, 12, "b", 4, "7 x 32 tokens")
    told = describe_worker_failure(1, beat, "connection error code 2. End of file")
    assert told.startswith("worker 1 (process 12) failed after step 4, at work on 7 x 32 tokens: ")
    assert "was it for memory?" in told
    assert "training.passes" in told


def test_an_error_in_python_is_told_by_its_last_line():
    told = describe_worker_failure(0, None, "Traceback:\n  line 3\nKeyError: 'x'\n")
    assert told == "worker 0 failed before its first step: KeyError: 'x'"
