"""Encode a corpus on all machines of a cluster.

Text at an address is read part by part by tasks, each of which reads, encodes and, into an object
store, writes the shards of its part. Text of this machine's disk is read here and sent in blocks.
``data/corpus/parallel_encoding.py`` does the same on one machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial

from road_ray.data.corpus.cut_shards import BlockNumber, PartWork, Shard, blocks_of, cut
from road_ray.data.corpus.documents import Part
from road_ray.data.corpus.encode_documents import Encoded, Encoder, encode_block
from road_ray.data.corpus.parallel_encoding import (
    Blocks,
    Encoding,
    ahead,
    encoded_blocks,
    encoded_shards,
    submit_in_order,
)
from road_ray.data.corpus.shard_destination import Place, StoredPlace
from road_ray.distributed.connection import address_of, connected
from road_ray.errors import ClusterError, RoadError
from road_ray.system.remote_files import StoredFile

_BLOCK_SECONDS = 900.0  # encoding a block takes about a second; the rest is waiting for a free core
_SHARDS_AHEAD = 2  # of a task, waiting to be written here


def encoding_at(address: str | None) -> Encoding:
    """Return the function that encodes: on the cluster to join, if any, else on this machine.

    Inside a task of Ray it is this machine too: a task holds its cores while it waits, so tasks
    that wait for tasks could block each other.
    """
    if address_of(address) is None or _is_task():
        return encoded_shards
    return partial(shards_on_cluster, address=address)


def _is_task() -> bool:
    """Return True in a process that Ray started, such as a trial of a sweep."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    return bool(ray.get_runtime_context().worker.mode == ray.WORKER_MODE)


def shards_on_cluster(
    work: Sequence[PartWork],
    encoder: Encoder,
    *,
    processes: int | None = None,
    place: Place | None = None,
    address: str | None = None,
) -> Iterator[Shard]:
    """Yield the shards of ``encoded_shards``, encoded by ``processes`` tasks of one core each;
    without content where a task has written them to ``place``.

    ``processes=None`` uses every core of the cluster. Raises ``ClusterError``.
    """
    if len(work) > 1 and all(_is_stored(part) for part in work):
        yield from _parts_on_cluster(work, encoder, processes, place, address)
    else:
        blocks = blocks_of(work)
        encoded = blocks_on_cluster(blocks, encoder, processes=processes, address=address)
        yield from cut(work, encoded)


def _is_stored(work: PartWork) -> bool:
    """Return True for a part that every machine can read."""
    part = work.documents
    return isinstance(part, Part) and all(isinstance(file, StoredFile) for file in part.files)


def _parts_on_cluster(
    work: Sequence[PartWork],
    encoder: Encoder,
    processes: int | None,
    place: Place | None,
    address: str | None,
) -> Iterator[Shard]:
    """Yield the shards of parts as tasks finish them; as many tasks as cores run at a time."""
    with connected(address):
        import ray

        count = processes or max(1, int(ray.cluster_resources().get("CPU", 1.0)))
        written = place if isinstance(place, StoredPlace) else None
        task = ray.remote(num_cpus=1, max_retries=3, num_returns="streaming")(_shards_of_part)
        task = task.options(_generator_backpressure_num_objects=_SHARDS_AHEAD)
        settings, waiting = ray.put(encoder.settings()), list(reversed(work))
        running: dict[object, int] = {}
        while waiting or running:
            while waiting and len(running) < count:
                part = waiting.pop()
                running[task.remote(settings, part, written)] = part.progress.part
            ready, _ = ray.wait(list(running), timeout=_BLOCK_SECONDS)
            if not ready:
                raise _encoding_error(f"parts {sorted(running.values())}", "no shard was finished")
            number = running[ready[0]]
            try:
                shard: Shard = ray.get(next(ready[0]))
            except StopIteration:
                del running[ready[0]]
                continue
            except Exception as error:
                raise _task_error(f"part {number}", error) from error
            yield shard


def _shards_of_part(settings: bytes, work: PartWork, place: Place | None) -> Iterator[Shard]:
    """Read and encode a part in a task of Ray; write its shards if ``place`` is given."""
    encoder = Encoder.from_settings(settings)
    for shard in encoded_shards([work], encoder, processes=1):
        if place is None or shard.content is None:
            # Arrow's buffers are views; Ray would copy the whole buffers that they refer to.
            content = None if shard.content is None else bytes(shard.content)
            yield Shard(shard.name, content, shard.progress)
        else:
            place.write(shard.name, shard.content)
            yield Shard(shard.name, None, shard.progress)


def _task_error(part: str, error: Exception) -> RoadError:
    """Return the error that a task raised, or one for a task that was lost."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, RoadError) else _encoding_error(part, str(error))


def _encoding_error(part: str, reason: str) -> ClusterError:
    return ClusterError(
        f"The cluster did not encode {part} of the corpus: {reason}\n"
        f"  allowed: an answer within {_BLOCK_SECONDS:g} s\n"
        "  fix: check that its machines have free cores and memory, or omit the address\n"
        "  kept: the finished shards; to resume, run the same command"
    )


def blocks_on_cluster(
    blocks: Blocks, encoder: Encoder, *, processes: int | None = None, address: str | None = None
) -> Iterator[tuple[BlockNumber, Encoded]]:
    """Yield the rows of ``encoded_blocks``, encoded by ``processes`` tasks of one core each.

    A block whose machine dies is encoded elsewhere. Raises ``ClusterError``.
    """
    numbered, many = ahead(blocks)
    if not many:
        yield from encoded_blocks(numbered, encoder, processes=1)
        return
    with connected(address):
        import ray

        count = processes or max(1, int(ray.cluster_resources().get("CPU", 1.0)))
        task, settings = ray.remote(num_cpus=1, max_retries=3)(encode_block), encoder.settings()
        settings_ref = ray.put(settings)

        def submit(number: BlockNumber, block: list[str]) -> object:
            return task.remote(settings_ref, *number, block)

        for number, ref in submit_in_order(numbered, submit, count):
            yield number, _answer(number, ref)


def _answer(number: BlockNumber, ref: object) -> Encoded:
    import ray
    from ray.exceptions import RayError

    try:
        encoded: Encoded = ray.get(ref, timeout=_BLOCK_SECONDS)
        return encoded
    except RayError as error:
        raise _encoding_error(f"block {number.number}", str(error)) from error
