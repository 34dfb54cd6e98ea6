"""What becomes of a teacher's request whose deadline passes or whose call fails."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from road_ray.distributed.teachers.answer_deadline import ReplicaRequest


@dataclass
class Group:
    """Replicas of one teacher, as a request asks about them."""

    alive: bool = True
    others: bool = False
    all_dead: bool = False

    def answers(self, number):
        return self.alive

    def has_others(self, number):
        return self.others


def decisions(group, times=3):
    request = ReplicaRequest(0, None)
    return [request.after_deadline(group) for _ in range(times)]


def test_a_live_teacher_is_waited_for_once_then_replaced_then_given_up():
    assert decisions(Group()) == ["wait", "replace", "give up"]


def test_a_dead_teacher_without_replicas_is_replaced_once():
    assert decisions(Group(alive=False), 2) == ["replace", "give up"]


def test_a_dead_teacher_with_another_replica_is_replaced_twice():
    assert decisions(Group(alive=False, others=True)) == ["replace", "replace", "give up"]


def test_a_request_that_fails_is_sent_again_three_times():
    request = ReplicaRequest(0, None)
    assert [request.after_failure(Group()) for _ in range(4)] == ["resend"] * 3 + ["give up"]


def test_nothing_is_sent_again_when_all_replicas_are_dead():
    assert ReplicaRequest(0, None).after_failure(Group(all_dead=True)) == "give up"


@pytest.mark.parametrize(("seconds", "late"), [(60.0, False), (0.0, True)])
def test_a_deadline_is_that_many_seconds_from_now(seconds, late):
    request = ReplicaRequest(0, None)
    request.extend(seconds)
    assert request.is_late is late
