"""Encode documents in blocks on all machines of a cluster, in order.

``data/corpus/parallel.py`` does the same on one machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial

from road_ray.data.corpus.encode import Encoded, Encoder, encode_block
from road_ray.data.corpus.parallel import Encoding, encoded_blocks, numbered_blocks, submit_in_order
from road_ray.distributed.connection import address_of, connected
from road_ray.errors import ClusterError

_BLOCK_SECONDS = 900.0  # encoding a block takes about a second; the rest is waiting for a free core


def encoding_at(address: str | None) -> Encoding:
    """Return the function that encodes: on the cluster to join, if any, else on this machine.

    Inside a task of Ray it is this machine too: a task holds its cores while it waits, so tasks
    that wait for tasks could block each other.
    """
    if address_of(address) is None or _is_task():
        return encoded_blocks
    return partial(encoded_on_cluster, address=address)


def _is_task() -> bool:
    """Return True in a process that Ray started, such as a trial of a sweep."""
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
    """Yield the rows of ``encoded_blocks``, encoded by ``processes`` tasks of one core each.

    ``processes=None`` uses every core of the cluster. A block whose machine dies is encoded
    elsewhere. Raises ``ClusterError``.
    """
    numbered, many = numbered_blocks(documents, start)
    if not many:
        for number, block in numbered:
            yield number, encoder.encode(number, block)
        return
    with connected(address):
        import ray

        count = processes or max(1, int(ray.cluster_resources().get("CPU", 1.0)))
        task = ray.remote(num_cpus=1, max_retries=3)(encode_block)
        submit = partial(task.remote, ray.put(encoder.settings()))
        for number, ref in submit_in_order(numbered, submit, count):
            yield number, _answer(number, ref)


def _answer(number: int, ref: object) -> Encoded:
    import ray
    from ray.exceptions import RayError

    try:
        encoded: Encoded = ray.get(ref, timeout=_BLOCK_SECONDS)
        return encoded
    except RayError as error:
        raise ClusterError(
            f"The cluster did not encode block {number} of the corpus: {error}\n"
            f"  allowed: an answer within {_BLOCK_SECONDS:g} s\n"
            "  fix: check that its machines have free cores and memory, or omit the address\n"
            "  kept: the finished shards; to resume, run the same command"
        ) from error
