"""What a run is told and tells: stop requests, out-of-memory errors."""

import os
import signal
import threading

import pytest
import torch

from road_ray.errors import ResourceError
from road_ray.training import run_context
from road_ray.training.run_context import RunContext, StopRequest, oom_as_error
from road_ray.training.worker import Worker


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_to_stop_and_the_handlers_come_back(number):
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert not stop.after_step(1, Worker())[0]
        os.kill(os.getpid(), number)
        assert stop.after_step(1, Worker())[0]
    assert signal.getsignal(number) is before


def test_a_second_signal_stops_at_once():
    def interrupted_twice():
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.requested
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        interrupted_twice()


def test_outside_the_main_thread_it_does_nothing():
    calls = []

    def run():
        with StopRequest() as stop:
            calls.append(stop.requested)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert calls == [False]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_notice_saves_at_once_and_then_every_few_seconds(monkeypatch):
    """The machine may live on for two minutes: the work of that time is saved too."""
    calls, now = [], [1000.0]
    monkeypatch.setattr(run_context.time, "monotonic", lambda: now[0])

    def preempted() -> bool:
        calls.append(True)
        return len(calls) > 1

    context = RunContext(preempted=preempted)
    with StopRequest(context) as stop:
        assert stop.after_step(1, Worker()) == (False, False)
        assert calls == []  # it costs a round trip: only when the host says that it is due
        context.check_preemption = True
        assert stop.after_step(2, Worker()) == (False, False)
        context.check_preemption = True
        assert stop.after_step(3, Worker()) == (False, True)
        context.check_preemption = True
        assert stop.after_step(4, Worker()) == (False, False)
        assert len(calls) == 2
        now[0] += 5.1
        assert stop.after_step(5, Worker()) == (False, True)


def test_an_allocation_that_fails_names_what_was_worked_on():
    context = RunContext(step=12, batch="8 x 512 tokens")
    with (
        pytest.raises(ResourceError, match="worker 3 ran out of memory after step 12") as caught,
        oom_as_error(3, context),
    ):
        torch.empty(2**60)
    assert "at work on 8 x 512 tokens" in str(caught.value)
    assert "training.passes" in str(caught.value)


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ],
)
def test_memory_that_other_libraries_of_a_gpu_lack_is_told_and_other_errors_stay(message):
    with pytest.raises(ResourceError, match="ran out of memory"), oom_as_error(0, RunContext()):
        raise RuntimeError(message)
    with pytest.raises(RuntimeError, match="shapes differ"), oom_as_error(0, RunContext()):
        raise RuntimeError("shapes differ")
