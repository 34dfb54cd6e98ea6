"""Dynamic batching: rows of waiting requests share a forward pass. Independent of Ray and HTTP.

Ray Serve's own ``@serve.batch`` lets the model idle for its whole time-out before each batch, and
batches in the order of arrival, whatever the lengths. Here a batch is taken as soon as the model is
free, from what arrived meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from road_ray.inference.input_rows import Row
from road_ray.inference.predictor import Prediction

_SHORT_CHARACTERS = 256  # below it, padding costs less than a pass of its own
_MOST_SPREAD = 2.0  # longest over shortest request of a batch


@dataclass(eq=False)
class _Request:
    rows: Sequence[tuple[str, Row]]
    answer: asyncio.Future[list[Prediction]]
    arrived: float = field(default_factory=time.monotonic)

    @property
    def length(self) -> int:
        """Return the characters of the longest row."""
        return max(characters(row) for _, row in self.rows)


class RowQueue:
    """Queue in front of ``predict``, which is called in a single thread.

    A batch has the oldest request and those of similar length, at most ``max_rows`` rows in all
    unless one request alone has more. While the model is idle, a request waits ``wait_seconds`` for
    others. ``begin`` is called first in the thread.
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
        self._waiting: list[_Request] = []
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
        while batch := self._take_batch():
            await self._answer(batch)

    def _take_batch(self) -> list[_Request]:
        """Remove the oldest request and those that share its pass from the queue."""
        self._waiting = [request for request in self._waiting if not request.answer.cancelled()]
        if not self._waiting:
            return []
        first, *later = self._waiting
        batch, rows = [first], len(first.rows)
        similar = [request for request in later if _similar(first.length, request.length)]
        for request in sorted(similar, key=lambda request: abs(request.length - first.length)):
            if rows + len(request.rows) <= self._max_rows:
                batch.append(request)
                rows += len(request.rows)
        self._waiting = [request for request in self._waiting if request not in batch]
        return batch

    async def _answer(self, batch: Sequence[_Request]) -> None:
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


def texts_of(row: Row) -> list[str]:
    """Return all texts of a row, without its id."""
    values = [value for name, value in row.items() if name != "id"]
    lists = [value if isinstance(value, list) else [value] for value in values]
    return [text for texts in lists for text in texts if isinstance(text, str)]


def characters(row: Row) -> int:
    """Return the characters of all texts of a row."""
    return sum(map(len, texts_of(row)))


def _similar(length: int, other: int) -> bool:
    """Return True if requests of these lengths may share a batch."""
    longest = max(length, other)
    return longest <= _SHORT_CHARACTERS or longest <= _MOST_SPREAD * min(length, other)
