"""Encode documents in blocks on all cores of this machine, in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from types import ModuleType
from typing import TypeAlias, TypeVar

from road_ray.data.corpus.cut_shards import BlockNumber, PartWork, Shard, blocks_of, cut
from road_ray.data.corpus.encode_documents import Encoded, Encoder, encode_block
from road_ray.data.corpus.shard_destination import Place
from road_ray.errors import ResourceError
from road_ray.system.operating_system import usable_cores

Encoding: TypeAlias = Callable[..., Iterator[Shard]]
"""``encoded_shards``, or a function of the same signature and shards, in any order of the parts."""
Blocks: TypeAlias = Iterator[tuple[BlockNumber, list[str]]]
Number = TypeVar("Number")
Block = TypeVar("Block")
Pending = TypeVar("Pending")
_MIN_BLOCKS_FOR_PROCESSES = 4  # starting processes takes as long as encoding about two blocks


def ahead(blocks: Blocks) -> tuple[Blocks, bool]:
    """Return the blocks, and True if there are enough to start processes."""
    first = list(islice(blocks, _MIN_BLOCKS_FOR_PROCESSES))
    return chain(first, blocks), len(first) == _MIN_BLOCKS_FOR_PROCESSES


def submit_in_order(
    numbered: Iterable[tuple[Number, Block]],
    submit: Callable[[Number, Block], Pending],
    workers: int,
) -> Iterator[tuple[Number, Pending]]:
    """Submit each block and yield its pending result in order, two a worker in flight at most."""
    pending: deque[tuple[Number, Pending]] = deque()
    for number, block in numbered:
        pending.append((number, submit(number, block)))
        if len(pending) >= 2 * workers:
            yield pending.popleft()
    while pending:
        yield pending.popleft()


def encoded_shards(
    work: Sequence[PartWork],
    encoder: Encoder,
    *,
    processes: int | None = None,
    place: Place | None = None,
) -> Iterator[Shard]:
    """Yield the shards of all parts in order, encoded on the cores of this machine.

    ``place`` is for encoders on other machines, which may write there themselves.
    """
    return cut(work, encoded_blocks(blocks_of(work), encoder, processes=processes))


def encoded_blocks(
    blocks: Blocks, encoder: Encoder, *, processes: int | None = None
) -> Iterator[tuple[BlockNumber, Encoded]]:
    """Yield the rows of each block in order, independent of ``processes``.

    ``processes=None`` uses every core that this process may use. A few blocks are encoded in this
    process. At most two blocks a process are in memory. Raises ``ResourceError`` if a process dies.
    """
    numbered, many = ahead(blocks)
    count = usable_cores() if processes is None else processes
    daemon = multiprocessing.current_process().daemon  # may not start processes
    if count <= 1 or not many or daemon:
        for number, block in numbered:
            yield number, encoder.encode(number.number, block, number.part)
        return
    settings = encoder.settings()
    # Not `fork`: this process has threads of torch and of Ray.
    pool = ProcessPoolExecutor(
        count, multiprocessing.get_context("spawn"), initializer=_end_with_parent
    )

    def submit(number: BlockNumber, block: list[str]) -> Future[Encoded]:
        with _without_main_module():  # a submission may start a process
            try:
                return pool.submit(encode_block, settings, *number, block)
            # The new process cannot start, or the pool broke meanwhile: its descriptors are closed,
            # and Python reports a reused one as a ``ValueError``.
            except (OSError, ValueError) as error:
                raise BrokenProcessPool(str(error)) from error

    try:
        for number, future in submit_in_order(numbered, submit, count):
            yield number, future.result()
    except BrokenProcessPool as error:
        raise ResourceError(
            f"A tokenising process did not start or ended early: {error}\n"
            "  fix: see its own message above; without one, it was probably killed for lack of "
            "memory: use fewer processes\n"
            "  kept: the finished shards; to resume, run the same command"
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
    threading.Thread(target=_exit_after_parent, daemon=True).start()


def _exit_after_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
