"""A race: contestants in processes of their own make one step each in turn, round after round.

So a busy machine slows all of them alike, and the peak memory of each is its own. A contestant is a
function ``main(setting, connection)`` that steps through ``gated(connection, batches)``.
"""

import multiprocessing
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import torch

Main = Callable[[Any, Connection], None]
Contestants = Mapping[Any, tuple[Main, Any]]
"""By name: ``main(setting, connection)`` and its setting."""
Start = Callable[[Main, Any, str], Any]
START_TIMEOUT_SECONDS = 120
CLOCKS = {"wall": time.perf_counter, "cpu": time.thread_time}  # cpu: of the training thread alone


class Over(Exception):
    """Raised inside ``gated`` when the race has ended."""


@dataclass
class Timing:
    """What one contestant did."""

    seconds: list[float] = field(default_factory=list)  # of a step of each round
    peak_memory_mb: float = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def gated(
    connection: Connection, batches: Iterable[Any], steps: int = 1, warm_steps: int = 0
) -> Iterator[Any]:
    """``steps`` batches whenever the referee names a clock; reports the seconds of one by it.

    A sequence of them repeats. ``warm_steps`` of each round come before the clock starts: they use
    up what was asked ahead while others had their turn.
    """
    connection.send_bytes(b"ready")
    endless = batches if isinstance(batches, Iterator) else cycle(batches)
    while True:
        if (now := CLOCKS.get(connection.recv_bytes().decode())) is None:
            raise Over
        yield from islice(endless, warm_steps)
        began = now()
        yield from islice(endless, steps)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        connection.send_bytes(repr((now() - began) / steps).encode())


def run(main: Main, setting: Any, address: str) -> None:
    """One contestant, from its call to the end of the race."""
    torch.set_num_threads(1)
    with Client(address) as connection:
        try:
            main(setting, connection)
        except Over:
            connection.send_bytes(repr(peak_memory_mb()).encode())


def peak_memory_mb() -> float:
    """Of this process and the largest that it started, or of its device."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    usages = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(resource.getrusage(who).ru_maxrss for who in usages) / 1024


def in_process(main: Main, setting: Any, address: str) -> Any:
    """Start a contestant in a new process."""
    process = multiprocessing.get_context("spawn").Process(
        target=run,
        args=(main, setting, address),  # no daemon: those may not have children
    )
    process.start()
    return process


def in_thread(main: Main, setting: Any, address: str) -> Any:
    """Start a contestant in a thread: at once, but its memory is that of all."""
    thread = threading.Thread(target=run, args=(main, setting, address), daemon=True)
    thread.start()
    return thread


def race(
    contestants: Contestants,
    starts: Mapping[Any, Start],
    *,
    repeats: int,
    warmup: int,
    until: float | None,
    clock: str,
) -> dict[Any, Timing]:
    """``repeats`` rounds after ``warmup`` that do not count; every round begins with another.

    After ``until``, of ``time.monotonic()``, no further round begins, but one always counts.
    """
    with tempfile.TemporaryDirectory(prefix="race-") as directory:
        lanes = {
            name: _Lane(*contestant, starts[name], str(Path(directory) / str(number)))
            for number, (name, contestant) in enumerate(contestants.items())
        }
        names = list(lanes)
        for turn in range(warmup + repeats):
            if until is not None and turn > warmup and time.monotonic() > until:
                break
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                lanes[name].step(clock, counts=turn >= warmup)
        return {name: lane.end() for name, lane in lanes.items()}


def _accepted(listener: Listener) -> Connection:
    connections: list[Connection] = []
    waiting = threading.Thread(target=lambda: connections.append(listener.accept()), daemon=True)
    waiting.start()
    waiting.join(START_TIMEOUT_SECONDS)
    if not connections:
        raise TimeoutError(f"a contestant did not start within {START_TIMEOUT_SECONDS} s")
    return connections[0]


class _Lane:
    """The referee's side of one contestant."""

    def __init__(self, main: Main, setting: Any, start: Start, address: str) -> None:
        self.timing = Timing()
        with Listener(address) as listener:
            self.host = start(main, setting, address)
            self.connection = _accepted(listener)
        self._receive(START_TIMEOUT_SECONDS)

    def _receive(self, timeout_seconds: float = 300) -> bytes:
        if not self.connection.poll(timeout_seconds):
            raise TimeoutError(f"no answer within {timeout_seconds} s")
        return self.connection.recv_bytes()

    def step(self, clock: str, *, counts: bool) -> None:
        self.connection.send_bytes(clock.encode())
        seconds = float(self._receive())
        if counts:
            self.timing.seconds.append(seconds)

    def end(self) -> Timing:
        self.connection.send_bytes(b"end")
        self.timing.peak_memory_mb = float(self._receive())
        self.connection.close()
        self.host.join()
        return self.timing
