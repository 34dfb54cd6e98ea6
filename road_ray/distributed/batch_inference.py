"""Inference over many items by a pool of actors: in the order of the items, with bounded memory.

``road predict --workers`` sends chunks of rows, a corpus is encoded in blocks of documents.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any, TypeAlias, TypeVar

from road_ray.data.corpus.build_corpus import Block, Encoded, Encoder, Encoding, encoded_blocks
from road_ray.distributed.connection import address_of, connected, is_joined
from road_ray.errors import ClusterError, RoadError, first_line

Item = TypeVar("Item")
Result = TypeVar("Result")
Answer: TypeAlias = Callable[[Iterable[Item]], Iterator[Result]]
"""Function that yields the result of each item, in order."""

_ITEM_SECONDS = 3600.0  # 4,096 long contexts take minutes; the rest is waiting for a new actor
_START_SECONDS = 300.0
_RETRIES = 3  # of an item whose actor died; one that kills every actor is an error
_RESTARTS = 10  # of an actor; for ever, one that dies at its start would be started for minutes
_OPEN_PER_ACTOR = 2  # one is computed while the next one is sent


@contextmanager
def batch_inference(
    make: Callable[..., Callable[[Item], Result]],
    *arguments: object,
    actors: str = "predictors",
    workers: int | None = None,
    gpus: float = 0.0,
    address: str | None = None,
) -> Iterator[Answer[Item, Result]]:
    """Start ``workers`` actors that hold ``make(*arguments)``, such as a model, and give the
    function that maps it over items. ``make`` is called once in each actor; it, its arguments,
    items and results must be picklable. ``actors`` names them in messages.

    They run on the cluster that this process uses, that at ``address``, or a new one on this
    machine; by default as many as its free CPUs and GPUs allow. Ray replaces a dead actor and
    computes its items again. At most two items an actor are in the cluster, results included.

    Raises ``ClusterError`` without room or answer; a ``RoadError`` of ``make``, of an item or of
    the items as it would be raised in this process, behind the results before it.
    """
    with connected(address, num_cpus=workers if address is None else None):
        import ray

        from road_ray.distributed.room import fitting, room

        resources = {"CPU": 1.0, **({"GPU": gpus} if gpus else {})}
        workers = workers or max(1, fitting(ray.available_resources(), resources, 1))
        room(actors, workers, resources)
        actor_class = ray.remote(InferenceActor).options(
            num_cpus=1,
            num_gpus=gpus,
            max_restarts=_RESTARTS,
            max_task_retries=_RETRIES,
            scheduling_strategy="SPREAD",
        )
        pool = [actor_class.remote(make, *arguments) for _ in range(workers)]
        try:
            with _no_answer(actors):
                ray.get([actor.start.remote() for actor in pool], timeout=_START_SECONDS)
            yield partial(_in_order, pool, actors)
        finally:
            for actor in pool:
                with suppress(Exception):  # the cluster may be gone, which the body has told
                    ray.kill(actor)


def _in_order(pool: list[Any], actors: str, items: Iterable[Item]) -> Iterator[Any]:
    """Yield the result of each item."""
    from ray.util import ActorPool

    slots, failure, left = ActorPool(pool * _OPEN_PER_ACTOR), None, iter(items)
    while True:
        try:
            item = next(left)
        except StopIteration:
            break
        except RoadError as error:  # of the source: told behind the results of the items before it
            failure = error
            break
        if not slots.has_free():
            yield _next(slots, actors)
        slots.submit(lambda actor, item: actor.compute.remote(item), item)
    while slots.has_next():
        yield _next(slots, actors)
    if failure is not None:
        raise failure


class InferenceActor:
    """Actor that computes items. ``make`` is called by the first task, also of a replacement: what
    it raises is the error of that task, and no death of the actor.
    """

    def __init__(self, make: Callable[..., Callable[[Any], Any]], *arguments: object) -> None:
        self._made = cache(partial(make, *arguments))

    def start(self) -> int:
        """Call ``make``, and return the process id."""
        self._made()
        return os.getpid()

    def compute(self, item: object) -> Any:
        """Return the result of an item."""
        return self._made()(item)


def _next(slots: Any, actors: str) -> Any:
    """Return the result of the oldest item."""
    with _no_answer(actors):
        return slots.get_next(timeout=_ITEM_SECONDS)


@contextmanager
def _no_answer(actors: str) -> Iterator[None]:
    """Raise ``ClusterError`` where Ray has no answer of an actor, and an error of the computation
    as it was raised there.
    """
    from ray.exceptions import RayError, RayTaskError

    try:
        yield
    except (RayError, TimeoutError) as error:
        cause = error.cause if isinstance(error, RayTaskError) else None
        if isinstance(cause, Exception) and not isinstance(cause, RayError):
            raise cause from error
        raise ClusterError(
            f"{actors} did not answer: {first_line(error)}\n"
            f"  allowed: a start within {_START_SECONDS:g} s, an answer within {_ITEM_SECONDS:g} "
            f"s; what an actor died of is tried {_RETRIES + 1} times, an actor {_RESTARTS + 1} "
            "times\n  fix: check memory and log of the cluster, then repeat the command\n"
            "  kept: what was written so far"
        ) from error


def encoding_at(address: str | None) -> Encoding:
    """Return the function that encodes a corpus: on the cluster to join, if any, else on this
    machine, which reads the text and writes the shards in either case. A block whose machine dies
    is encoded elsewhere.

    Inside a task of Ray it is this machine too: a task holds its cores while it waits, so tasks
    that wait for tasks could block each other.
    """
    if address_of(address) is None:
        return encoded_blocks
    if is_joined():
        import ray

        if ray.get_runtime_context().worker.mode == ray.WORKER_MODE:
            return encoded_blocks

    def encoded(
        blocks: Iterator[Block], encoder: Encoder, *, processes: int | None = None
    ) -> Iterator[Encoded]:
        how: dict[str, Any] = {"actors": "encoders", "workers": processes, "address": address}
        with batch_inference(partial, Encoder.__getitem__, encoder, **how) as answer:
            yield from answer(blocks)

    return encoded
