"""What is told of a worker that failed. The rest is in ``test_launch.py``."""

from __future__ import annotations

from road_ray.distributed.train.supervisor import describe_stalls, describe_worker_failure
from road_ray.distributed.train.worker_channel import Heartbeat


def test_a_process_that_was_killed_may_have_needed_memory():
    beat = Heartbeat(0.0, 12, "b", 4, "7 x 32 tokens")
    message = describe_worker_failure(1, beat, "connection error code 2. End of file")
    assert message.startswith(
        "worker 1 (process 12) failed after step 4, at work on 7 x 32 tokens: "
    )
    assert "was it for memory?" in message
    assert "training.passes" in message


def test_an_error_in_python_is_told_by_its_last_line():
    message = describe_worker_failure(0, None, "Traceback:\n  line 3\nKeyError: 'x'\n")
    assert message == "worker 0 failed before its first step: KeyError: 'x'"


def test_stalled_workers_are_named_with_their_machines_those_behind_first():
    stalls = [
        (rank, Heartbeat(0.0, 10 + rank, "b", 42 - (rank == 1), ""), 640.4) for rank in (0, 1)
    ]
    first, second, *advice = describe_stalls(stalls, {"b": "10.0.0.5"}).splitlines()
    assert first == "worker 1 (process 11 on 10.0.0.5): no step finished for 640 s, since step 41"
    assert second.strip().startswith("worker 0 (process 10 on 10.0.0.5)")
    assert "the run continues" in advice[0]
    assert "py-spy dump --pid" in advice[1]


def test_a_large_group_that_stalls_is_one_short_message():
    stalls = [(rank, Heartbeat(0.0, rank, "b", 7, ""), 601.0) for rank in range(512)]
    message = describe_stalls(stalls, {})
    assert "and 504 more workers" in message
    assert message.count("process") == 8
