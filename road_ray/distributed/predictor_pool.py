"""Predict the rows of a file on a pool of model actors with Ray Data: ``road predict --workers``.

One task on the caller's node reads the file in the chunks of a single process, and actors predict
them. The predictions return in the order of the chunks, so the output is the same.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from road_ray.distributed.connection import connected
from road_ray.errors import ClusterError, RoadError
from road_ray.inference import predict_file
from road_ray.inference.input_rows import RowSource
from road_ray.inference.load_model import load
from road_ray.inference.predictor import CHUNK_ROWS, Prediction

_CHUNK_SECONDS = 3600  # 4,096 long contexts take minutes; the rest is waiting for a new actor
_START_SECONDS = 300
_RETRIES = 3  # of a chunk whose actor died; a chunk that kills every actor is an error
_CHUNKS_PER_ACTOR = 2  # one is predicted while the next one is sent


@contextmanager
def predictor_pool(
    model: str,
    options: Mapping[str, object],
    *,
    workers: int | None = None,
    gpus_per_worker: float = 0.0,
    address: str | None = None,
) -> Iterator[predict_file.Predict]:
    """Join a cluster with room for ``workers`` actors, and give the function that predicts a file
    on them, in order. Each actor loads ``model`` with the ``options`` of ``load``.

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
        yield partial(_predict, place, dict(options), workers, gpus_per_worker)


def _predict(
    model: str,
    options: dict[str, Any],
    workers: int,
    gpus_per_worker: float,
    source: RowSource,
    done: int,
) -> Iterator[list[Prediction]]:
    """Yield the predictions of each chunk after ``done`` rows, in order."""
    import ray.data
    from ray.exceptions import RayError

    load_errors = ray.remote(num_cpus=0)(LoadErrors).remote()
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # its errors are raised here too
    warnings.filterwarnings("ignore", message="The minimum number of concurrent actors")
    chunks = partial(_chunks, source, done, CHUNK_ROWS)
    with ray.data.DataContext.current(_context()), warnings.catch_warnings():
        # Ray 2.60 has no other way to limit the retries of a chunk and to spread actors.
        warnings.filterwarnings("ignore", message=".*ray_remote_args")
        dataset = ray.data.read_datasource(
            _one_read_task(chunks), num_cpus=0, override_num_blocks=1
        ).map_batches(
            PredictorActor,
            batch_size=1,  # of one chunk each
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(
                size=workers, max_tasks_in_flight_per_actor=_CHUNKS_PER_ACTOR
            ),
            fn_constructor_args=(model, options, load_errors),
            num_cpus=1,
            num_gpus=gpus_per_worker,
            max_task_retries=_RETRIES,
            scheduling_strategy="SPREAD",
        )
    blocks = dataset.iter_batches(batch_size=1, batch_format="pyarrow", prefetch_batches=0)
    try:
        for number, block in enumerate(blocks):
            if number == 0 and (error := ray.get(load_errors.first.remote())):
                raise error  # before anything is written, though other actors have the model
            yield _unpacked(block)
    except RayError as error:
        raise _pool_error(error) from error
    finally:
        ray.kill(load_errors)


def _context() -> Any:
    """Return the settings of the data set: chunks stay apart and in order, and nothing is shown."""
    from ray.data import DataContext

    context = DataContext.get_current().copy()
    context.execution_options.preserve_order = True
    context.target_max_block_size = 1  # byte: no chunk waits for the next one to fill a block
    # Without both of these, Ray 2.60 reads on though the chunks that wait have filled their share
    # of the object store, and spills them.
    context.object_store_memory_pressure_fraction = 0.5
    context.object_store_reservation_overshoot_ratio = 1.0
    context.wait_for_min_actors_s = _START_SECONDS
    context.execution_no_progress_timeout_s = _CHUNK_SECONDS
    context.max_consecutive_actor_init_deaths = 0
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    return context


def _one_read_task(chunks: partial[Iterator[Any]]) -> Any:
    """Return the data source with one read task, which runs on this node: only this machine is
    known to have the file. If its process dies, Ray reads the file again from the start.
    """
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

    class PredictionInput(Datasource):  # type: ignore[misc]
        supports_distributed_reads = False

        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, *_: object, **__: object) -> list[ReadTask]:
            return [ReadTask(chunks, BlockMetadata(None, None, None, None))]

    return PredictionInput()


def _chunks(source: RowSource, done: int, chunk_rows: int) -> Iterator[Any]:
    """Yield a block for each chunk of rows after ``done``; at a row that cannot be read, one of the
    error.
    """
    try:
        for chunk in predict_file.chunks_of(islice(source.rows(), done, None), chunk_rows):
            yield _packed(chunk)
    except RoadError as error:
        yield _packed(error)


def _packed(content: object) -> Any:
    """Return a block of one cell: rows of any columns, or an error. It is an Arrow block, because
    Ray Data limits what it reads ahead by the sizes of blocks, and counts an object of pandas as a
    few bytes.
    """
    import pyarrow as pa
    from ray.data.extensions import ArrowPythonObjectArray

    return pa.table({"chunk": ArrowPythonObjectArray.from_objects([content])})


def _unpacked(block: Any) -> Any:
    """Return what ``_packed`` was given. Raises it if it is a ``RoadError``."""
    value = block["chunk"][0].as_py()
    if isinstance(value, RoadError):
        raise value
    return value


class PredictorActor:
    """Actor that predicts chunks of rows. It returns a ``RoadError`` instead of raising it, because
    Ray would wrap it.
    """

    def __init__(self, model: str, options: dict[str, Any], load_errors: Any) -> None:
        try:
            self._predictor: Any = load(model, **options)
        except RoadError as error:
            import ray

            self._predictor = error
            ray.get(load_errors.add.remote(error))

    def __call__(self, block: Any) -> Any:
        """Return one prediction a row, in order."""
        if isinstance(self._predictor, RoadError):  # a replacement found the model gone
            return _packed(self._predictor)
        try:
            return _packed(predict_file.predict_chunk(self._predictor, _unpacked(block)))
        except RoadError as error:
            return _packed(error)


class LoadErrors:
    """Actor that collects the errors of predictors that could not load the model."""

    def __init__(self) -> None:
        self._errors: list[RoadError] = []

    def add(self, error: RoadError) -> None:
        """Keep an error for ``first``."""
        self._errors.append(error)

    def first(self) -> RoadError | None:
        """Return the first error, if there is one."""
        return self._errors[0] if self._errors else None


def _pool_error(error: Exception) -> ClusterError:
    return ClusterError(
        f"predictors did not answer: {str(error).splitlines()[0]}\n"
        f"  allowed: an answer within {_CHUNK_SECONDS} s; a chunk is tried {_RETRIES + 1} "
        "times\n  fix: check memory and log of the cluster, then repeat the command\n"
        "  kept: the chunks written so far"
    )
