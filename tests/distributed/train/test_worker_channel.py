"""What the coordinator remembers, who counts as silent, how often a worker calls."""

from __future__ import annotations

from road_ray.distributed.train.coordinator import CoordinatorActor, beat_seconds, error_of
from road_ray.errors import ClusterError, DataError


def test_the_first_failure_is_the_one_that_counts():
    coordinator = CoordinatorActor()
    assert coordinator.failure() is None
    coordinator.fail("DataError", "row 3")
    coordinator.fail("ClusterError", "connection closed by peer")
    assert coordinator.failure() == ("DataError", "row 3")
    assert coordinator.beat(0, 1, "a", 5, "8 x 32 tokens") == (False, True)


def test_a_stop_reaches_whoever_beats():
    coordinator = CoordinatorActor()
    assert coordinator.beat(0, 1, "a", 5, "8 x 32 tokens") == (False, False)
    coordinator.stop()
    assert coordinator.beat(1, 2, "a", 5, "") == (True, False)


def test_only_those_who_spoke_and_did_not_leave_can_be_silent():
    coordinator = CoordinatorActor()
    coordinator.beat(0, 11, "a", 5, "")
    coordinator.beat(1, 12, "b", 4, "")
    assert coordinator.silent(60.0) == {}
    assert set(coordinator.silent(-1.0)) == {0, 1}
    assert coordinator.silent(-1.0)[1].pid == 12
    coordinator.leave(1)
    assert set(coordinator.silent(-1.0)) == {0}


def test_an_error_comes_back_with_its_class_and_text():
    error = error_of("DataError", "a.tsv:3\n  fix: it")
    assert type(error) is DataError
    assert str(error) == "a.tsv:3\n  fix: it"
    assert type(error_of("FromTheFuture", "x")) is ClusterError


def test_a_death_is_told_once_and_silences_the_whole_group():
    """The others are ended with it: their silence means nothing."""
    coordinator = CoordinatorActor()
    coordinator.beat(0, 11, "a", 5, "8 x 32 tokens")
    coordinator.beat(1, 12, "b", 4, "7 x 32 tokens")
    coordinator.died({1: "connection error code 2. End of file"})
    ((rank, beat, _cause),) = coordinator.deaths()
    assert (rank, beat.pid, beat.step, beat.batch) == (1, 12, 4, "7 x 32 tokens")
    assert coordinator.deaths() == []
    assert coordinator.silent(-1.0) == {}


def test_rows_are_told_once_in_their_order():
    coordinator = CoordinatorActor()
    coordinator.row(1, 3, {"m": 0.5})
    coordinator.row(2, 3, {"m": 1.0})
    assert coordinator.rows() == [(1, 3, {"m": 0.5}), (2, 3, {"m": 1.0})]
    assert coordinator.rows() == []


def test_large_groups_call_less_often_so_that_one_actor_can_answer():
    assert [beat_seconds(n) for n in (1, 16, 64)] == [0.5, 0.5, 0.5]
    assert [n / beat_seconds(n) for n in (128, 512, 4096)] == [128.0, 128.0, 128.0]
