"""What driver and workers tell each other."""

from __future__ import annotations

import time

from road_ray.distributed.train.worker_group import Inbox, Messages, append
from road_ray.errors import ClusterError, DataError, RoadError
from road_ray.training.run_context import RunContext


def test_the_first_failure_counts_and_comes_back_with_its_class_and_text(tmp_path):
    messages = Messages(tmp_path)
    assert messages.failure() is None
    messages.fail(DataError("a.tsv:3\n  fix: it"))
    messages.fail(ClusterError("connection closed by peer"))
    error = messages.failure()
    assert (type(error), str(error)) == (DataError, "a.tsv:3\n  fix: it")


def test_an_error_of_an_unknown_class_is_one_of_the_cluster(tmp_path):
    class FromElsewhereError(RoadError):
        pass

    Messages(tmp_path).fail(FromElsewhereError("x"))
    assert type(Messages(tmp_path).failure()) is ClusterError


def test_a_stop_reaches_the_context_of_a_worker_before_and_while_it_runs(tmp_path):
    messages, late, context = Messages(tmp_path), RunContext(), RunContext(preempted=bool)
    with messages.reach(context):
        assert context.check_preemption
        assert not context.stop.is_set()
        messages.stop()
        assert context.stop.wait(10)
    with messages.reach(late):
        assert late.stop.is_set()


def test_rows_are_told_once_in_their_order_and_a_torn_one_is_none(tmp_path):
    inbox, told = Inbox(tmp_path / "rows.jsonl"), []
    assert list(inbox.new()) == []
    for step in range(9):
        append(tmp_path / "rows.jsonl", step, None, {"m": step / 3})
        if step % 3 == 0:
            told += inbox.new()
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write("[9, 9, {")  # the rest may follow
    told += inbox.new()
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write("[10, null, {}]\n")  # after the death of the process that wrote it
    append(tmp_path / "rows.jsonl", 11, 12, {})
    told += inbox.new()
    assert told == [[step, None, {"m": step / 3}] for step in range(9)] + [[11, 12, {}]]


def test_a_worker_that_waits_for_a_failed_one_ends(tmp_path, monkeypatch):
    from road_ray.distributed.train import worker_group as module

    ended = []
    monkeypatch.setattr(module.os, "_exit", ended.append)
    monkeypatch.setattr(module, "_GRACE_SECONDS", 0.1)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.05)
    messages = Messages(tmp_path)
    messages.fail(DataError("x"))
    with messages.reach(RunContext()):
        end = time.monotonic() + 10
        while not ended and time.monotonic() < end:
            time.sleep(0.05)
    assert ended[0] == 1
