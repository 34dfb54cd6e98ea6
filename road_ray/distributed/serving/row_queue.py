"""Dynamic batching: rows of waiting requests share a forward pass. Independent of Ray and HTTP.

Ray Serve's own ``@serve.batch`` works inside its replicas only, and a server of one process has
none; it refuses a request that has more rows than a batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from road_ray.inference.input_rows import Row
from road_ray.inference.predictor import Prediction


class _Request(NamedTuple):
    rows: Sequence[tuple[str, Row]]
    answer: asyncio.Future[list[Prediction]]


class RowQueue:
    """Queue in front of ``predict``, which is called in a single thread.

    A batch is taken as soon as the model is free, from what arrived meanwhile: the oldest requests,
    at most ``max_rows`` rows in all unless one request alone has more. While the model is idle, a
    request waits ``wait_seconds`` for others. ``begin`` is called first in the thread.
    """

    def __init__(
        self,
        predict: Callable[[Sequence[tuple[str, Row]]], list[Prediction]],
        *,
        max_rows: int,
        wait_seconds: float = 0.0,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._predict, self._max_rows, self._wait_seconds = predict, max_rows, wait_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model", initializer=begin)
        self._waiting: deque[_Request] = deque()
        self._work: asyncio.Task[None] | None = None

    async def predict(self, rows: Sequence[tuple[str, Row]]) -> list[Prediction]:
        """Return the predictions of a request's rows. Raises what ``predict`` raises for them."""
        loop = asyncio.get_running_loop()
        request = _Request(rows, loop.create_future())
        self._waiting.append(request)
        if self._work is None or self._work.done():
            self._work = loop.create_task(self._run())
        return await request.answer

    async def _run(self) -> None:
        """Predict until nothing waits."""
        if self._wait_seconds:
            await asyncio.sleep(self._wait_seconds)
        while self._waiting:
            batch = [self._waiting.popleft()]
            count = len(batch[0].rows)
            while self._waiting and count + len(self._waiting[0].rows) <= self._max_rows:
                batch.append(self._waiting.popleft())
                count += len(batch[-1].rows)
            await self._answer([request for request in batch if not request.answer.cancelled()])

    async def _answer(self, batch: Sequence[_Request]) -> None:
        if not batch:
            return
        rows = [row for request in batch for row in request.rows]
        loop = asyncio.get_running_loop()
        try:
            predictions = await loop.run_in_executor(self._thread, self._predict, rows)
        except Exception as error:
            if len(batch) > 1:  # one request is faulty: predict each alone
                for request in batch:
                    await self._answer([request])
            elif not batch[0].answer.done():
                batch[0].answer.set_exception(error)
            return
        begin = 0
        for request in batch:
            end = begin + len(request.rows)
            if not request.answer.done():  # the client may have gone
                request.answer.set_result(predictions[begin:end])
            begin = end
