"""What is told of a worker that failed. The rest is in ``test_launch.py``."""

from __future__ import annotations

from road_ray.distributed.train.supervisor import describe_worker_failure
from road_ray.distributed.train.worker_channel import Heartbeat


def test_a_process_that_was_killed_may_have_needed_memory():
    beat = Heartbeat(12, 4, "7 x 32 tokens")
    message = describe_worker_failure(1, beat, "connection error code 2. End of file")
    assert message.startswith(
        "worker 1 (process 12) failed after step 4, at work on 7 x 32 tokens: "
    )
    assert "was it for memory?" in message
    assert "training.passes" in message


def test_an_error_in_python_is_told_by_its_last_line():
    message = describe_worker_failure(0, None, "Traceback:\n  line 3\nKeyError: 'x'\n")
    assert message == "worker 0 failed before its first step: KeyError: 'x'"
