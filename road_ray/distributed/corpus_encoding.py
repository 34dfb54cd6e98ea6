"""Encode a corpus on all machines of a cluster: this machine reads the text and writes the shards.

``data/corpus/encode_documents.py`` does the same on one machine.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any

from road_ray.data.corpus.encode_documents import (
    Block,
    Encoded,
    Encoder,
    Encoding,
    encode_block,
    encoded_blocks,
)
from road_ray.distributed.connection import address_of, connected
from road_ray.errors import ClusterError

_BLOCK_SECONDS = 900.0  # encoding a block takes about a second; the rest is waiting for a free core


def encoding_at(address: str | None) -> Encoding:
    """Return the function that encodes: on the cluster to join, if any, else on this machine.

    Inside a task of Ray it is this machine too: a task holds its cores while it waits, so tasks
    that wait for tasks could block each other.
    """
    if address_of(address) is None:
        return encoded_blocks
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return partial(encoded_on_cluster, address=address)
    in_task = ray.get_runtime_context().worker.mode == ray.WORKER_MODE
    return encoded_blocks if in_task else partial(encoded_on_cluster, address=address)


def encoded_on_cluster(
    blocks: Iterator[Block],
    encoder: Encoder,
    *,
    processes: int | None = None,
    address: str | None = None,
) -> Iterator[Encoded]:
    """Yield the rows of ``encoded_blocks``, encoded by ``processes`` tasks of one core each, in
    order; ``None`` uses every core of the cluster.

    A block whose machine dies is encoded elsewhere. Raises ``ClusterError``.
    """
    with connected(address):
        import ray
        from ray.exceptions import RayError

        count = processes or max(1, int(ray.cluster_resources().get("CPU", 1.0)))
        pending: deque[Any] = deque()  # two blocks a task, in order
        task = ray.remote(num_cpus=1, max_retries=3)(encode_block)
        shared = ray.put(encoder)
        try:
            for block in blocks:
                pending.append(task.remote(shared, block))
                if len(pending) >= 2 * count:
                    yield ray.get(pending.popleft(), timeout=_BLOCK_SECONDS)
            while pending:
                yield ray.get(pending.popleft(), timeout=_BLOCK_SECONDS)
        except RayError as error:
            raise ClusterError(
                f"The cluster did not encode a block of the corpus: {error}\n"
                f"  allowed: an answer within {_BLOCK_SECONDS:g} s\n"
                "  fix: check that its machines have free cores and memory, or omit the address"
            ) from error
