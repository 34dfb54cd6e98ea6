"""What is pinned to the board, and who counts as silent."""

from __future__ import annotations

from road_ray.distributed.train.coordinator import CoordinatorActor, error_of
from road_ray.errors import ClusterError, DataError


def test_the_first_failure_is_the_one_that_counts():
    board = CoordinatorActor()
    assert board.failure() is None
    board.fail("DataError", "row 3")
    board.fail("ClusterError", "connection closed by peer")
    assert board.failure() == ("DataError", "row 3")
    assert board.beat(0, 1, "a", 5, "8 x 32 tokens") == (False, True)


def test_a_stop_reaches_whoever_beats():
    board = CoordinatorActor()
    assert board.beat(0, 1, "a", 5, "8 x 32 tokens") == (False, False)
    board.stop()
    assert board.beat(1, 2, "a", 5, "") == (True, False)


def test_only_those_who_spoke_and_did_not_leave_can_be_silent():
    board = CoordinatorActor()
    board.beat(0, 11, "a", 5, "")
    board.beat(1, 12, "b", 4, "")
    assert board.silent(60.0) == {}
    assert set(board.silent(-1.0)) == {0, 1}
    assert board.silent(-1.0)[1].pid == 12
    board.leave(1)
    assert set(board.silent(-1.0)) == {0}


def test_an_error_comes_back_with_its_class_and_text():
    error = error_of("DataError", "a.tsv:3\n  fix: it")
    assert type(error) is DataError
    assert str(error) == "a.tsv:3\n  fix: it"
    assert type(error_of("FromTheFuture", "x")) is ClusterError


def test_a_death_is_told_once_and_silences_the_whole_group():
    """The others are ended with it: their silence means nothing."""
    board = CoordinatorActor()
    board.beat(0, 11, "a", 5, "8 x 32 tokens")
    board.beat(1, 12, "b", 4, "7 x 32 tokens")
    board.died({1: "connection error code 2. End of file"})
    ((rank, beat, _cause),) = board.deaths()
    assert (rank, beat.pid, beat.step, beat.batch) == (1, 12, 4, "7 x 32 tokens")
    assert board.deaths() == []
    assert board.silent(-1.0) == {}


def test_rows_are_told_once_in_their_order():
    board = CoordinatorActor()
    board.row(1, 3, {"m": 0.5})
    board.row(2, 3, {"m": 1.0})
    assert board.rows() == [(1, 3, {"m": 0.5}), (2, 3, {"m": 1.0})]
    assert board.rows() == []
