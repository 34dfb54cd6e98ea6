"""What the channel remembers, and how often a worker calls."""

from __future__ import annotations

from contextlib import suppress

import pytest
from ray.exceptions import GetTimeoutError

from road_ray.distributed.train import worker_channel
from road_ray.distributed.train.worker_channel import (
    WorkerChannel,
    WorkerChannelActor,
    beat_seconds,
    error_of,
)
from road_ray.errors import ClusterError, DataError


def test_the_first_failure_is_the_one_that_counts():
    channel = WorkerChannelActor()
    assert channel.failure() is None
    channel.fail("DataError", "row 3")
    channel.fail("ClusterError", "connection closed by peer")
    assert channel.failure() == ("DataError", "row 3")
    assert channel.beat(0, 1, 5, "8 x 32 tokens") == (False, True)


def test_a_stop_reaches_whoever_beats():
    channel = WorkerChannelActor()
    assert channel.beat(0, 1, 5, "8 x 32 tokens") == (False, False)
    channel.stop()
    assert channel.beat(1, 2, 5, "") == (True, False)


def test_an_error_comes_back_with_its_class_and_text():
    error = error_of("DataError", "a.tsv:3\n  fix: it")
    assert type(error) is DataError
    assert str(error) == "a.tsv:3\n  fix: it"
    assert type(error_of("FromTheFuture", "x")) is ClusterError


def test_a_death_is_told_once_with_its_last_step():
    channel = WorkerChannelActor()
    channel.beat(0, 11, 5, "8 x 32 tokens")
    channel.beat(1, 12, 4, "7 x 32 tokens")
    channel.died({1: "connection error code 2. End of file"})
    ((rank, beat, _cause),) = channel.deaths(0)
    assert (rank, beat.pid, beat.step, beat.batch) == (1, 12, 4, "7 x 32 tokens")
    assert channel.deaths(1) == []


@pytest.fixture
def late(monkeypatch):
    """A channel whose answers come too late as often as ``late.times`` says; its actor is here."""

    class Method:
        def __init__(self, method):
            self.remote = method

    class Actor:
        def __init__(self):
            self.it = WorkerChannelActor()

        def __getattr__(self, name):
            return Method(getattr(self.it, name))

    def get(answer, timeout):
        if channel.times:
            channel.times -= 1
            raise GetTimeoutError("as on an overloaded machine")
        return answer

    monkeypatch.setattr(worker_channel.ray, "get", get)
    channel = WorkerChannel(Actor())
    channel.times = 0
    return channel


def test_rows_are_told_once_in_their_order_also_after_answers_that_were_lost(late):
    rows = [(step, 9, {"m": float(step)}) for step in range(9)]
    told = []
    for number, times in enumerate((0, 1, 0, 2)):
        for row in rows[2 * number : 2 * number + 2]:
            late.row(*row)
        late.times = times
        for _ in range(3):
            with suppress(GetTimeoutError):
                told += late.rows()
    late.row(*rows[8])
    assert told + late.rows() == rows
    assert late.actor.it._rows.items == [rows[8]]  # the others are forgotten


def test_deaths_are_told_once_also_after_an_answer_that_was_lost(late):
    late.died({1: "End of file"})
    late.times = 1
    with pytest.raises(GetTimeoutError):
        late.deaths()
    late.died({0: "SIGKILL"})
    assert [death[0] for death in late.deaths()] == [1, 0]
    assert late.deaths() == []


def test_large_groups_call_less_often_so_that_one_actor_can_answer():
    assert [beat_seconds(n) for n in (1, 16, 64)] == [0.5, 0.5, 0.5]
    assert [n / beat_seconds(n) for n in (128, 512, 4096)] == [128.0, 128.0, 128.0]
