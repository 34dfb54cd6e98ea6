"""Predict chunks of rows on a pool of model actors: ``road predict --workers``.

The chunks are those of a single process and return in their order, so the output is the same.
"""

# Plain actors rather than Ray Data, which was tried (Ray 2.60, two actors): its reader runs ahead
# of slow actors without a limit (38 of 40 chunks of 10 MB, spilled from a store of 100 MiB, against
# two an actor here), and it would have to copy standard input to a file first, for it reads in a
# process of its own. 20,000 rows took 105 s instead of 88 s.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from road_ray.data.corpus.parallel_encoding import submit_in_order
from road_ray.distributed.connection import connected
from road_ray.errors import ClusterError, RoadError
from road_ray.inference.load_model import load
from road_ray.inference.predict_file import Chunks
from road_ray.inference.predictor import Prediction, Row

_CHUNK_SECONDS = 3600.0  # 4,096 long contexts take minutes; the rest is waiting for a new actor
_START_SECONDS = 300.0
_RETRIES = 3  # of a chunk whose actor died; a chunk that kills every actor is an error

Chunk = list[tuple[str, Row]]


@contextmanager
def predictor_pool(
    model: str,
    options: Mapping[str, object],
    *,
    workers: int | None = None,
    gpus_per_worker: float = 0.0,
    address: str | None = None,
) -> Iterator[Chunks]:
    """Start ``workers`` actors that each load ``model`` with the ``options`` of ``load``, and give
    the function that predicts chunks with them, in order.

    Actors run on the cluster at ``address``, or on a new one on this machine; by default one for
    each free core. A dead actor is replaced, and its chunks are predicted again. Raises
    ``ClusterError``.
    """
    with connected(address, num_cpus=workers if address is None else None):
        import ray

        from road_ray.distributed.placement import check_placement

        workers = workers or max(1, int(ray.available_resources().get("CPU", 1.0)))
        check_placement("predictors", workers, {"CPU": 1.0, "GPU": gpus_per_worker})
        place = str(Path(model).resolve()) if Path(model).exists() else model
        actor = ray.remote(
            num_cpus=1,
            num_gpus=gpus_per_worker,
            max_restarts=-1,
            max_task_retries=_RETRIES,
            scheduling_strategy="SPREAD",
        )(PredictorActor)
        actors = [actor.remote(place, dict(options)) for _ in range(workers)]
        try:
            for ready in [actor.ready.remote() for actor in actors]:
                _answer(ready, _START_SECONDS)
            yield partial(_predict, actors)
        finally:
            for actor in actors:
                ray.kill(actor)


def _predict(actors: list[Any], chunks: Iterator[Chunk]) -> Iterator[list[Prediction]]:
    """Yield the predictions of each chunk, in order."""

    def submit(number: int, chunk: Chunk) -> Any:
        return actors[number % len(actors)].predict.remote(chunk)

    for _, ref in submit_in_order(enumerate(chunks), submit, len(actors)):
        yield _answer(ref, _CHUNK_SECONDS)


def _answer(ref: object, timeout_seconds: float) -> Any:
    """Return the answer of an actor. Raises the ``RoadError`` that it raised, ``ClusterError`` for
    an actor that is lost.
    """
    import ray
    from ray.exceptions import RayError

    try:
        answer = ray.get(ref, timeout=timeout_seconds)
    except RayError as error:
        raise ClusterError(
            f"predictors did not answer: {str(error).splitlines()[0]}\n"
            f"  allowed: an answer within {timeout_seconds:g} s; a chunk is tried {_RETRIES + 1} "
            "times\n  fix: check memory and log of the cluster, then repeat the command\n"
            "  kept: the chunks written so far"
        ) from error
    if isinstance(answer, RoadError):
        raise answer
    return answer


class PredictorActor:
    """Actor that predicts chunks of rows. It returns a ``RoadError`` instead of raising it, because
    Ray would wrap it.
    """

    def __init__(self, model: str, options: dict[str, Any]) -> None:
        try:
            self._predictor: Any = load(model, **options)
        except RoadError as error:
            self._predictor = error

    def ready(self) -> RoadError | None:
        """Return None once the model is loaded, or the reason why it is not."""
        return self._predictor if isinstance(self._predictor, RoadError) else None

    def predict(self, rows: Chunk) -> list[Prediction] | RoadError:
        """Return one prediction a row, in order."""
        if isinstance(self._predictor, RoadError):  # a replacement found the model gone
            return self._predictor
        try:
            return list(self._predictor.predict_rows(rows))
        except RoadError as error:
            return error
