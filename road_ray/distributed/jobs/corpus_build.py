"""Documents in blocks, the blocks encoded on all machines of a cluster, the results in their order:
what ``data/corpus/parallel.py`` does on one machine.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import Any

from road_ray.data.corpus.encode import Encoded, Encoder
from road_ray.data.corpus.parallel import Encoding, encoded_blocks, numbered_blocks
from road_ray.distributed.connection import address_of, connected
from road_ray.errors import ClusterError

_BLOCK_SECONDS = 900.0  # for a block of a million characters: a second, and a wait for a free core


def encoding_at(address: str | None) -> Encoding:
    """On the cores of the cluster to join, if any; else, and inside its tasks, here: a task holds
    cores while it waits, and others of its kind would wait for each other's.
    """
    if address_of(address) is None or _is_task():
        return encoded_blocks
    return partial(encoded_on_cluster, address=address)


def _is_task() -> bool:
    """Whether this process was started by Ray, as trials of a sweep and arms of a comparison."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    return bool(ray.get_runtime_context().worker.mode == ray.WORKER_MODE)


def encoded_on_cluster(
    documents: Iterable[str],
    encoder: Encoder,
    *,
    processes: int | None = None,
    start: int = 0,
    address: str | None = None,
) -> Iterator[tuple[int, Encoded]]:
    """As ``encoded_blocks``, whose rows it gives, in tasks of a core each; None: one a core of the
    cluster. A block whose machine dies is encoded elsewhere. Raises ``ClusterError``.
    """
    numbered, many = numbered_blocks(documents, start)
    if not many:
        for number, block in numbered:
            yield number, encoder.encode(number, block)
        return
    with connected(address):
        import ray

        count = processes or max(1, int(ray.cluster_resources().get("CPU", 1.0)))
        settings = ray.put(encoder.settings())
        task = ray.remote(num_cpus=1, max_retries=3)(_encoded)
        waiting: deque[tuple[int, Any]] = deque()
        for number, block in numbered:
            waiting.append((number, task.remote(settings, number, block)))
            if len(waiting) >= 2 * count:
                yield _answer(*waiting.popleft())
        while waiting:
            yield _answer(*waiting.popleft())


def _answer(number: int, ref: Any) -> tuple[int, Encoded]:
    import ray
    from ray.exceptions import RayError

    try:
        return number, ray.get(ref, timeout=_BLOCK_SECONDS)
    except RayError as error:
        raise ClusterError(
            f"block {number} of the corpus was not encoded by the cluster: {error}\n"
            f"  allowed: an answer within {_BLOCK_SECONDS:g} s\n"
            "  fix: see that its machines have free cores and memory, or leave the address out\n"
            "  kept: the shards so far; the same command goes on"
        ) from error


def _encoded(settings: bytes, number: int, block: list[str]) -> Encoded:
    """In a process of Ray, which keeps the encoder for the blocks to come."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a task is given one core
    return _encoder(settings).encode(number, block)


@lru_cache(maxsize=2)
def _encoder(settings: bytes) -> Encoder:
    return Encoder.from_settings(settings)
