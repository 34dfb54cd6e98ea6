"""Which rows share a forward pass, and that each request gets its own answers and errors."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from road_ray.distributed.serving.row_queue import RowQueue
from road_ray.errors import DataError


class Model:
    """Predicts the characters of each row, one batch at a time, and keeps the batches."""

    def __init__(self):
        self.batches = []
        self.free = threading.Event()
        self.free.set()

    def __call__(self, rows):
        self.batches.append([len(row["text"]) for _, row in rows])
        assert self.free.wait(10)
        if any(row["text"] == "bad" for _, row in rows):
            raise DataError("bad row")
        return [{"length": len(row["text"])} for _, row in rows]


@pytest.fixture
def model():
    return Model()


def request(*lengths):
    return [(f"[{number}]", {"text": "x" * length}) for number, length in enumerate(lengths)]


async def behind_a_pass(model, queue, requests):
    """Send requests while the model is busy with another; return their answers."""
    model.free.clear()
    first = asyncio.create_task(queue.predict(request(1)))
    while not model.batches:
        await asyncio.sleep(0.001)
    waiting = [asyncio.create_task(queue.predict(one)) for one in requests]
    await asyncio.sleep(0)
    model.free.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    await first
    return answers


def test_requests_that_arrive_during_a_pass_share_the_next_one(model):
    queue = RowQueue(model, max_rows=8)
    requests = [request(5), request(7, 9), request(6)]
    answers = asyncio.run(behind_a_pass(model, queue, requests))
    assert answers == [[{"length": 5}], [{"length": 7}, {"length": 9}], [{"length": 6}]]
    assert [len(batch) for batch in model.batches] == [1, 4]


def test_a_batch_is_bounded_but_one_request_is_never_split(model):
    queue = RowQueue(model, max_rows=3)
    requests = [request(1), request(1, 1), request(1), request(*[1] * 5), request(1)]
    asyncio.run(behind_a_pass(model, queue, requests))
    assert [len(batch) for batch in model.batches[1:]] == [3, 1, 5, 1]


def test_a_faulty_request_fails_alone(model):
    queue = RowQueue(model, max_rows=8)
    requests = [request(4), [("row", {"text": "bad"})], request(2)]
    answers = asyncio.run(behind_a_pass(model, queue, requests))
    assert (answers[0], answers[2]) == ([{"length": 4}], [{"length": 2}])
    assert isinstance(answers[1], DataError)


def test_an_idle_model_waits_for_others_if_told_to(model):
    async def two():
        queue = RowQueue(model, max_rows=8, wait_seconds=0.2)
        first = asyncio.create_task(queue.predict(request(1)))
        await asyncio.sleep(0.02)
        return await asyncio.gather(first, queue.predict(request(2)))

    began = time.monotonic()
    assert asyncio.run(two()) == [[{"length": 1}], [{"length": 2}]]
    assert model.batches == [[1, 2]]
    assert time.monotonic() - began >= 0.2


def test_a_client_that_has_gone_costs_no_pass(model):
    async def cancelled():
        queue = RowQueue(model, max_rows=1)
        model.free.clear()
        first = asyncio.create_task(queue.predict(request(1)))
        while not model.batches:
            await asyncio.sleep(0.001)
        gone = asyncio.create_task(queue.predict(request(2)))
        await asyncio.sleep(0)
        gone.cancel()
        last = asyncio.create_task(queue.predict(request(3)))
        await asyncio.sleep(0)
        model.free.set()
        await asyncio.gather(first, last)

    asyncio.run(cancelled())
    assert model.batches == [[1], [3]]
