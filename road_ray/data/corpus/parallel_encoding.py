"""Encode blocks of documents on all cores of this machine, in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from types import ModuleType
from typing import TypeAlias, TypeVar

from road_ray.data.corpus.encode_documents import Block, Encoded, Encoder, encode_block
from road_ray.errors import ResourceError
from road_ray.system.operating_system import usable_cores

Encoding: TypeAlias = Callable[..., Iterator[Encoded]]
"""``encoded_blocks``, or a function of the same signature and results."""
Pending = TypeVar("Pending")
_MIN_BLOCKS_FOR_PROCESSES = 4  # starting processes takes as long as encoding about two blocks


def submit_in_order(
    blocks: Iterable[Block], submit: Callable[[Block], Pending], workers: int
) -> Iterator[Pending]:
    """Submit each block and yield its pending result in order, two a worker in flight at most."""
    pending: deque[Pending] = deque()
    for block in blocks:
        pending.append(submit(block))
        if len(pending) >= 2 * workers:
            yield pending.popleft()
    yield from pending


def encoded_blocks(
    blocks: Iterator[Block], encoder: Encoder, *, processes: int | None = None
) -> Iterator[Encoded]:
    """Yield the rows of each block in order, independent of ``processes``.

    ``processes=None`` uses every core that this process may use. A few blocks are encoded in this
    process. At most two blocks a process are in memory. Raises ``ResourceError`` if a process dies.
    """
    first = list(islice(blocks, _MIN_BLOCKS_FOR_PROCESSES))
    blocks = chain(first, blocks)
    count = usable_cores() if processes is None else processes
    daemon = multiprocessing.current_process().daemon  # may not start processes
    if count <= 1 or len(first) < _MIN_BLOCKS_FOR_PROCESSES or daemon:
        yield from map(encoder.encode, blocks)
        return
    # Not `fork`: this process has threads of torch and of Ray.
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, spawn, initializer=_end_with_parent)

    def submit(block: Block) -> Future[Encoded]:
        with _without_main_module():  # a submission may start a process
            try:
                return pool.submit(encode_block, encoder, block)
            # The pool broke meanwhile: its descriptors are closed, or already those of others.
            except (OSError, ValueError) as error:
                raise BrokenProcessPool(str(error)) from error

    try:
        for future in submit_in_order(blocks, submit, count):
            yield future.result()
    except BrokenProcessPool as error:
        raise ResourceError(
            f"A tokenising process did not start or ended early: {error}\n"
            "  fix: see its own message above; without one, it was probably killed for lack of "
            "memory: use fewer processes"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _without_main_module() -> Iterator[None]:
    """Keep new processes from importing the user's script, which may lack a ``__main__`` guard."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _end_with_parent() -> None:
    """End this worker when its parent is killed, and on Ctrl-C without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def exit_after(parent: multiprocessing.process.BaseProcess) -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=exit_after, args=(parent,), daemon=True).start()
