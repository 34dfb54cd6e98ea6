"""Encode a corpus on all machines of a cluster: this machine reads the text and writes the shards.

``data/corpus/encode_documents.py`` does the same on one machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from road_ray.data.corpus.encode_documents import (
    Block,
    Encoded,
    Encoder,
    Encoding,
    encoded_blocks,
)
from road_ray.distributed.batch_inference import batch_inference
from road_ray.distributed.connection import address_of


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
    """Yield the rows of ``encoded_blocks``, encoded by ``processes`` actors of one core each, in
    order; ``None`` uses every free core of the cluster.

    A block whose machine dies is encoded elsewhere. Raises ``ClusterError``.
    """
    with batch_inference(
        partial, Encoder.__getitem__, encoder, actors="encoders", workers=processes, address=address
    ) as encoded:
        yield from encoded(blocks)
