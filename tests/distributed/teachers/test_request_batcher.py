"""Merged requests give the answers of single ones, for a model that adds up."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from road_ray.distributed.teachers.request_batcher import (
    Batcher,
    Ticket,
    fit,
    merge_inputs,
    split_answers,
)


def request(rows: int, length: int, first: int = 1) -> dict[str, np.ndarray]:
    ids = np.arange(first, first + rows * length, dtype=np.int32).reshape(rows, length)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def sums(inputs):
    """One answer a row and one a token, so that both ways of cutting are seen."""
    ids = inputs["input_ids"] * inputs["attention_mask"]
    return [ids.sum(-1, keepdims=True)]


def tokens(inputs):
    return [np.stack([inputs["input_ids"], 2 * inputs["input_ids"]], 1)]  # [B, 2, L]


def test_a_joined_batch_is_padded_with_zeros_and_cut_apart_again():
    requests = [request(2, 4), request(1, 5, first=50), request(3, 4, first=90)]
    joined = merge_inputs(requests)
    assert joined["input_ids"].shape == (6, 5)
    assert joined["attention_mask"][:, 4].tolist() == [0, 0, 1, 0, 0, 0]
    for answer, axis in ((sums, None), (tokens, -1)):
        parts = split_answers(answer(joined), requests, axis)
        for part, one in zip(parts, requests, strict=True):
            assert np.array_equal(part[0], answer(one)[0])


@pytest.mark.parametrize(
    ("shapes", "max_rows", "expected"),
    [
        ([(2, 8), (2, 10)], 8, True),
        ([(2, 8), (2, 11)], 8, False),  # too much padding
        ([(2, 8), (2, 8)], 3, False),  # too many rows
        ([(2, 8)], 1, True),  # alone it always fits: asked is asked
    ],
)
def test_similar_requests_fit_together(shapes, max_rows, expected):
    tickets = [Ticket(request(*shape), str(n)) for n, shape in enumerate(shapes)]
    assert (len(tickets) == 1 or fit(tickets, max_rows)) == expected


def test_requests_with_other_inputs_or_without_a_mask_are_not_padded():
    plain = {"input_ids": request(1, 8)["input_ids"]}
    assert not fit([Ticket(request(1, 8), "a"), Ticket(plain, "b")], 8)
    assert fit([Ticket(plain, "a"), Ticket(plain, "b")], 8)
    longer = {"input_ids": request(1, 9)["input_ids"]}
    assert not fit([Ticket(plain, "a"), Ticket(longer, "b")], 8)


class Model:
    """Notes the rows of every pass; slow enough for others to arrive meanwhile."""

    def __init__(self, seconds: float = 0.05) -> None:
        self.passes: list[int] = []
        self.seconds = seconds

    def __call__(self, inputs):
        self.passes.append(len(inputs["input_ids"]))
        time.sleep(self.seconds)
        if (inputs["input_ids"] < 0).any():
            raise IndexError("a negative id")
        return sums(inputs)


def ask_all(batcher, requests):
    """Every ``(caller, request)`` in a thread of its own; answers or errors in their order."""
    got = [None] * len(requests)

    def one(number, caller, inputs):
        try:
            got[number] = batcher.infer(inputs, caller)[0][0]
        except Exception as error:
            got[number] = error

    threads = [
        threading.Thread(target=one, args=(number, *pair)) for number, pair in enumerate(requests)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return got


def test_students_share_passes_and_get_their_own_rows():
    model = Model()
    requests = [(str(n), request(1 + n % 3, 8, first=100 * n + 1)) for n in range(12)]
    got = ask_all(Batcher(model, max_rows=16), requests)
    for answer, (_, inputs) in zip(got, requests, strict=True):
        assert np.array_equal(answer, sums(inputs)[0])
    assert sum(model.passes) == 24
    assert len(model.passes) < 12
    assert max(model.passes) <= 16


def test_requests_of_one_student_are_never_joined():
    model = Model(0.01)
    ask_all(Batcher(model), [("only", request(2, 8, first=n + 1)) for n in range(5)])
    assert model.passes == [2] * 5


def test_one_student_is_not_kept_waiting_for_others():
    batcher = Batcher(sums, wait_seconds=30.0)
    began = time.monotonic()
    for _ in range(3):
        batcher.infer(request(1, 4), "only")
    assert time.monotonic() - began < 10


def test_a_student_that_asked_just_now_is_waited_for():
    model = Model(0.0)
    batcher = Batcher(model, wait_seconds=20.0)
    batcher.infer(request(1, 4), "a")
    # "a" is known; "b" waits until "a" asks again.
    got = ask_all(batcher, [("b", request(1, 4)), ("a", request(1, 4))])
    assert all(np.array_equal(item, sums(request(1, 4))[0]) for item in got)
    assert model.passes[0] == 1
    assert sum(model.passes) == 3


def test_the_mistake_of_one_student_is_not_that_of_another():
    bad = request(1, 8)
    bad["input_ids"][0, 0] = -5
    model = Model()
    requests = [("slow", request(1, 8)), ("good", request(2, 8, first=9)), ("bad", bad)]
    got = ask_all(Batcher(model), requests)
    assert np.array_equal(got[1], sums(requests[1][1])[0])
    assert isinstance(got[2], IndexError)
