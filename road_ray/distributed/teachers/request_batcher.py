"""Dynamic batching: requests of several students share one forward pass. Independent of Ray and of
the model.

Requests of one student are never merged with each other: a single student gets the same bits as
from a teacher in its own process, and waits no longer.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from road_ray.distillation.ensemble.protocol import OWN_TOKENS

Inputs = Mapping[str, NDArray[np.generic]]
Answers = list[NDArray[np.generic]]  # one per teacher, [B, ...]
Stats = Mapping[str, float]  # figures of a teacher
Answering = Callable[[Inputs], Answers]

_ACTIVE_SECONDS = 1.0  # a student without a request for so long is not waited for
_MOST_PADDING = 1.25  # longest over shortest sequence in a merged batch


@dataclass(eq=False)
class Ticket:
    """A pending request."""

    inputs: Inputs
    caller: str
    arrived: float = field(default_factory=time.monotonic)
    served: threading.Event = field(default_factory=threading.Event)
    answers: Answers = field(default_factory=list)
    error: BaseException | None = None
    seconds: float = 0.0  # of its forward pass


class Batcher:
    """Thread-safe ``infer``; ``answer`` is called in a single thread.

    A merged batch has at most ``max_rows`` rows. Its first request waits at most ``wait_seconds``
    for other students, and only for those with a request within the last second. ``token_axis`` is
    the axis of an answer that is as long as the tokens, if there is one; ``begin`` is called first
    in the thread.
    """

    def __init__(
        self,
        answer: Answering,
        *,
        max_rows: int = 256,
        wait_seconds: float = 0.002,
        token_axis: int | None = None,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._answer, self._token_axis, self._begin = answer, token_axis, begin
        self._max_rows, self._wait_seconds = max_rows, wait_seconds
        self._queue: deque[Ticket] = deque()
        self._seen: dict[str, float] = {}
        self._arrived = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def infer(self, inputs: Inputs, caller: str = "") -> tuple[Answers, float]:
        """Return the answers and the seconds of their forward pass."""
        ticket = Ticket(inputs, caller)
        with self._arrived:
            self._seen[caller] = ticket.arrived
            self._queue.append(ticket)
            self._arrived.notify()
        ticket.served.wait()
        if ticket.error is not None:
            raise ticket.error
        return ticket.answers, ticket.seconds

    def _run(self) -> None:
        self._begin()
        while True:
            with self._arrived:
                self._arrived.wait_for(lambda: self._queue)
                batch = self._take_batch()
            self._serve(batch)

    def _take_batch(self) -> list[Ticket]:
        """Remove the oldest request and those that can be merged with it from the queue."""
        first = self._queue.popleft()
        while True:
            batch = [first]
            for ticket in self._queue:
                callers = {member.caller for member in batch}
                if ticket.caller not in callers and fit([*batch, ticket], self._max_rows):
                    batch.append(ticket)
            seconds_left = first.arrived + self._wait_seconds - time.monotonic()
            if seconds_left <= 0 or not self._more_expected(batch):
                break
            self._arrived.wait(seconds_left)
        for ticket in batch[1:]:
            self._queue.remove(ticket)
        return batch

    def _more_expected(self, batch: Sequence[Ticket]) -> bool:
        """Return True if another student is likely to send a request that fits."""
        recent = time.monotonic() - _ACTIVE_SECONDS
        self._seen = {caller: at for caller, at in self._seen.items() if at > recent}
        silent = self._seen.keys() - {ticket.caller for ticket in (*batch, *self._queue)}
        return bool(silent) and sum(map(rows, batch)) < self._max_rows

    def _serve(self, tickets: Sequence[Ticket]) -> None:
        began = time.perf_counter()
        try:
            if len(tickets) == 1:
                parts = [self._answer(tickets[0].inputs)]
            else:
                answers = self._answer(merge_inputs([ticket.inputs for ticket in tickets]))
                parts = split_answers(
                    answers, [ticket.inputs for ticket in tickets], self._token_axis
                )
        except BaseException as error:
            if len(tickets) > 1:  # one request is faulty: run each alone
                for ticket in tickets:
                    self._serve([ticket])
            else:
                tickets[0].error = error
                tickets[0].served.set()
            return
        for ticket, part in zip(tickets, parts, strict=True):
            ticket.seconds = time.perf_counter() - began
            ticket.answers = part
            ticket.served.set()


def rows(ticket: Ticket) -> int:
    """Return the number of examples in a request."""
    return len(ticket.inputs["input_ids"])


def fit(tickets: Sequence[Ticket], max_rows: int) -> bool:
    """Return True if requests can share a pass: equal inputs, similar length, few enough rows."""
    inputs = [ticket.inputs for ticket in tickets]
    lengths = [request["input_ids"].shape[-1] for request in inputs]
    layouts = {(*sorted(request), request["input_ids"].shape[1:-1]) for request in inputs}
    longest = min(lengths) * (_MOST_PADDING if "attention_mask" in inputs[0] else 1)
    return len(layouts) == 1 and max(lengths) <= longest and sum(map(rows, tickets)) <= max_rows


def merge_inputs(requests: Sequence[Inputs]) -> dict[str, NDArray[np.generic]]:
    """Concatenate ``n x [b, ..., l] -> [B, ..., L]``, padded with zeros, which the mask hides."""
    longest = max(request["input_ids"].shape[-1] for request in requests)

    def padded(array: NDArray[np.generic]) -> NDArray[np.generic]:
        if array.ndim == 1:  # texts, own_tokens
            return array
        widths = [(0, 0)] * (array.ndim - 1) + [(0, longest - array.shape[-1])]
        return np.pad(array, widths)

    return {name: np.concatenate([padded(r[name]) for r in requests]) for name in requests[0]}


def split_answers(
    answers: Answers, requests: Sequence[Inputs], token_axis: int | None
) -> list[Answers]:
    """Split the answers to a merged batch by request and remove the padding. Answers in the tokens
    of a teacher's own tokenizer keep theirs.
    """
    parts, begin = [], 0
    for request in requests:
        count, length = len(request["input_ids"]), request["input_ids"].shape[-1]
        part = [answer[begin : begin + count] for answer in answers]
        if token_axis is not None and OWN_TOKENS not in request:
            part = [np.take(answer, np.arange(length), axis=token_axis) for answer in part]
        parts.append(part)
        begin += count
    return parts
