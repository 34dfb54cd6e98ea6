"""Inference over many items by a pool of actors: in the order of the items, with bounded memory.

``road predict --workers`` sends chunks of rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

from road_ray.distributed.connection import connected
from road_ray.errors import ClusterError, RoadError

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
    cpus: float = 1.0,
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

        from road_ray.distributed.room import room

        resources = {"CPU": cpus, "GPU": gpus}
        workers = workers or _most(ray.available_resources(), resources)
        room(actors, workers, resources)
        actor_class = ray.remote(InferenceActor).options(
            num_cpus=cpus,
            num_gpus=gpus,
            max_restarts=_RESTARTS,
            max_task_retries=_RETRIES,
            scheduling_strategy="SPREAD",
        )
        pool = [actor_class.remote(make, *arguments) for _ in range(workers)]
        try:
            for started in [actor.failure.remote() for actor in pool]:
                if error := _get(started, _START_SECONDS, actors):
                    raise error
            yield partial(_in_order, pool, actors)
        finally:
            for actor in pool:
                with suppress(Exception):  # the cluster may be gone, which the body has told
                    ray.kill(actor)


def _most(free: dict[str, float], resources: dict[str, float]) -> int:
    """Return how many actors the free resources of a cluster allow, at least one."""
    shares = (free.get(name, 0.0) / amount for name, amount in resources.items() if amount > 0)
    return max(1, int(min(shares, default=1)))


def _in_order(pool: list[Any], actors: str, items: Iterable[Item]) -> Iterator[Any]:
    """Yield the result of each item. The actor with the fewest open items gets the next one."""
    import ray

    waiting: deque[Any] = deque()  # references to results, in the order of the items
    open_at: dict[Any, int] = {}
    failure: RoadError | None = None
    source = iter(items)
    while True:
        while failure is None and len(waiting) < _OPEN_PER_ACTOR * len(pool):
            try:
                item = next(source)
            except StopIteration:
                break
            except RoadError as error:  # told behind the results of the items before it
                failure = error
                break
            if open_at:
                done, _ = ray.wait(list(open_at), num_returns=len(open_at), timeout=0)
                for reference in done:
                    del open_at[reference]
            load = [0] * len(pool)
            for number in open_at.values():
                load[number] += 1
            number = load.index(min(load))
            reference = pool[number].compute.remote(item)
            waiting.append(reference)
            open_at[reference] = number
        if not waiting:
            break
        reference = waiting.popleft()
        result = _get(reference, _ITEM_SECONDS, actors)
        open_at.pop(reference, None)
        del reference
        if isinstance(result, RoadError):
            raise result
        yield result
    if failure is not None:
        raise failure


class InferenceActor:
    """Actor that computes items. It returns a ``RoadError`` instead of raising it, because Ray
    would wrap it.
    """

    def __init__(self, make: Callable[..., Callable[[Any], Any]], *arguments: object) -> None:
        self._failure: RoadError | None = None
        try:
            self._compute = make(*arguments)
        except RoadError as error:  # also in a replacement, which finds the model gone
            self._failure = error

    def failure(self) -> RoadError | None:
        """Return the error of the start, if there was one."""
        return self._failure

    def compute(self, item: object) -> Any:
        """Return the result of an item."""
        if self._failure is not None:
            return self._failure
        try:
            return self._compute(item)
        except RoadError as error:
            return error


def _get(reference: Any, seconds: float, actors: str) -> Any:
    """Return what a reference holds. Raises an error of the computation as it was raised there."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        return ray.get(reference, timeout=seconds)
    except RayTaskError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, Exception) and not isinstance(cause, RayError):
            raise cause from error
        raise _no_answer(actors, error) from error
    except RayError as error:
        raise _no_answer(actors, error) from error


def _no_answer(actors: str, error: Exception) -> ClusterError:
    return ClusterError(
        f"{actors} did not answer: {(str(error).splitlines() or [type(error).__name__])[0]}\n"
        f"  allowed: a start within {_START_SECONDS:g} s, an answer within {_ITEM_SECONDS:g} s; "
        f"what an actor died of is tried {_RETRIES + 1} times, an actor {_RESTARTS + 1} times\n"
        "  fix: check memory and log of the cluster, then repeat the command\n"
        "  kept: what was written so far"
    )
