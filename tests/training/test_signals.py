"""Signals that only ask."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from road_ray.training import signals
from road_ray.training.signals import OUTSIDE, StopRequest
from road_ray.training.worker import Worker


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_to_stop_and_the_handlers_come_back(number):
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert not stop.on_any(Worker())
        os.kill(os.getpid(), number)
        assert stop.on_any(Worker())
    assert signal.getsignal(number) is before


def test_a_second_signal_stops_at_once():
    def interrupted_twice():
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.asked
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        interrupted_twice()


def test_a_request_to_an_inner_one_goes_to_the_outer_too():
    with StopRequest() as outer:
        with StopRequest() as inner:
            os.kill(os.getpid(), signal.SIGINT)
            assert inner.asked
        assert outer.asked


def test_outside_the_main_thread_it_does_nothing():
    asked = []

    def run():
        with StopRequest() as stop:
            asked.append(stop.asked)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert asked == [False]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.fixture
def outside():
    yield OUTSIDE
    OUTSIDE.reset()


def test_a_host_may_ask_to_stop(outside):
    with StopRequest() as stop:
        assert stop.after_step(3, Worker()) == (False, False)
        outside.stop = True
        assert stop.after_step(4, Worker()) == (True, False)
    assert outside.step == 4


def test_a_notice_saves_at_once_and_then_every_few_seconds(outside, monkeypatch):
    """The machine may live on for two minutes: what is done until then is not lost either."""
    asked, now = [], [1000.0]
    monkeypatch.setattr(signals.time, "monotonic", lambda: now[0])

    def preempted() -> bool:
        asked.append(True)
        return len(asked) > 1

    outside.reset(preempted)
    with StopRequest() as stop:
        assert stop.after_step(1, Worker()) == (False, False)
        assert asked == []  # it costs a round trip: only when it is time to look
        outside.look = True
        assert stop.after_step(2, Worker()) == (False, False)
        outside.look = True
        assert stop.after_step(3, Worker()) == (False, True)
        outside.look = True
        assert stop.after_step(4, Worker()) == (False, False)
        assert len(asked) == 2
        now[0] += 5.1
        assert stop.after_step(5, Worker()) == (False, True)


def test_apart_from_its_group_a_worker_asks_nobody_and_forgets_nothing(outside):
    def asked_of_all():
        raise AssertionError("the other workers are not there to answer")

    outside.preempted, outside.look, outside.step = asked_of_all, True, 7
    with signals.apart(), StopRequest() as stop:
        assert stop.after_step(3, Worker()) == (False, False)
    assert (outside.preempted, outside.look, outside.step) == (asked_of_all, True, 7)
