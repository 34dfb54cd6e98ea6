"""Documents in blocks, the blocks encoded on all cores, the results in their order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from queue import SimpleQueue
from typing import IO, cast

from road_ray.data.corpus.encode import Encoded, Encoder, ask, write_frame
from road_ray.errors import ResourceError

Encoding = Callable[..., Iterator[tuple[int, Encoded]]]
"""``encoded_blocks``, or what does the same elsewhere."""
_BLOCK_CHARACTERS = 1 << 20
_WORTH_PROCESSES = 4  # blocks; starting processes takes as long as encoding about two
_ENDING_SECONDS = 10.0
_PACKAGE = Path(__file__).parents[3]


def blocks(documents: Iterable[str]) -> Iterator[list[str]]:
    """Lists of documents of about a million characters; what follows does not change a block."""
    block: list[str] = []
    size = 0
    for document in documents:
        block.append(document)
        size += len(document)
        if size >= _BLOCK_CHARACTERS:
            yield block
            block, size = [], 0
    if block:
        yield block


def numbered_blocks(
    documents: Iterable[str], start: int
) -> tuple[Iterator[tuple[int, list[str]]], bool]:
    """Blocks from ``start`` on, and whether they are so many that processes are worth it."""
    numbered = islice(enumerate(blocks(documents)), start, None)
    ahead = list(islice(numbered, _WORTH_PROCESSES))
    return chain(ahead, numbered), len(ahead) == _WORTH_PROCESSES


def encoded_blocks(
    documents: Iterable[str], encoder: Encoder, *, processes: int | None = None, start: int = 0
) -> Iterator[tuple[int, Encoded]]:
    """Rows of block ``start``, ``start + 1``, ... in this order, whatever ``processes``.

    None takes the cores that this process may use; few blocks are encoded here. At most two blocks
    a process are in memory.
    """
    numbered, many = numbered_blocks(documents, start)
    count = len(os.sched_getaffinity(0)) if processes is None else processes
    if count <= 1 or not many:
        for number, block in numbered:
            yield number, encoder.encode(number, block)
        return
    with ExitStack() as stack:
        idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for _ in range(count):
            idle.put(stack.enter_context(_process(encoder)))

        def encode(number: int, block: list[str]) -> Encoded:
            process = idle.get()
            try:
                return ask(_pipe(process.stdin), _pipe(process.stdout), number, block)
            except (EOFError, OSError, ValueError) as error:
                raise _ended(process) from error
            finally:
                idle.put(process)

        threads = stack.enter_context(ThreadPoolExecutor(count))
        waiting: deque[tuple[int, Future[Encoded]]] = deque()
        for number, block in numbered:
            waiting.append((number, threads.submit(encode, number, block)))
            if len(waiting) >= 2 * count:
                first, future = waiting.popleft()
                yield first, future.result()
        for first, future in waiting:
            yield first, future.result()


@contextmanager
def _process(encoder: Encoder) -> Iterator[subprocess.Popen[bytes]]:
    paths = os.pathsep.join(filter(None, (str(_PACKAGE), os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        # -P: no module of the working directory in place of the library's.
        [sys.executable, "-P", "-m", "road_ray.data.corpus.encode"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": paths, "TOKENIZERS_PARALLELISM": "false"},
    )
    try:
        try:
            write_frame(_pipe(process.stdin), encoder.settings())
        except OSError as error:
            raise _ended(process) from error
        yield process
    finally:
        process.kill()  # it waits for a block, or nobody waits for it
        process.wait()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):  # what was not yet written to a dead process
                _pipe(stream).close()


def _ended(process: subprocess.Popen[bytes]) -> ResourceError:
    """What became of a process that answers no more; its pipe breaks before it has ended."""
    code = None
    with suppress(subprocess.TimeoutExpired):
        code = process.wait(_ENDING_SECONDS)
    fix = "mend what it says itself, above"
    if code == -signal.SIGKILL:
        fix = "look for a lack of memory; fewer processes need less"
    how = "does not answer" if code is None else f"ended early (exit code {code})"
    return ResourceError(
        f"a tokenising process {how}\n"
        f"  fix: {fix}\n"
        "  kept: the shards so far; the same command goes on"
    )


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    return cast(IO[bytes], stream)
