"""Several runs in parallel, each a Ray task."""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import torch

from road_ray.distributed.connection import connected, driver_environment, variables_for_workers
from road_ray.errors import ClusterError, InterruptedRunError, RoadError
from road_ray.training.run_context import RunContext

_log = logging.getLogger(__name__)


class ParallelSettings(Protocol):
    """Keys of a configuration that say how its runs share a cluster."""

    @property
    def max_concurrent(self) -> int: ...

    @property
    def address(self) -> str | None: ...

    @property
    def gpus_per_worker(self) -> float: ...

    @property
    def timeout_seconds(self) -> float: ...


def run_all(
    function: Callable[..., object],
    configs: Sequence[object],
    settings: ParallelSettings,
    context: RunContext | None = None,
    *,
    return_errors: bool = False,
) -> list[Any]:
    """Return ``function(config, context=...)`` for every config: one after the other for
    ``max_concurrent = 0``, else in parallel on the cluster at ``address``, or on a new one with
    ``max_concurrent`` CPUs. Raises like ``run_parallel``.

    With ``return_errors`` a run that fails, with whatever exception, does not end the others: a
    ``RoadError`` stands in the place of its result and is logged at once. A stop is raised.
    """
    if not settings.max_concurrent and not return_errors:
        return [function(config, context=context) for config in configs]
    if not settings.max_concurrent:
        return [_attempt(function, config, context) for config in configs]
    cpus = settings.max_concurrent if settings.address is None else None
    with connected(settings.address, num_cpus=cpus):
        return run_parallel(
            function,
            configs,
            num_gpus=settings.gpus_per_worker,
            timeout_seconds=settings.timeout_seconds,
            context=context,
            return_errors=return_errors,
        )


def _attempt(function: Callable[..., object], config: object, context: RunContext | None) -> Any:
    try:
        return function(config, context=context)
    except InterruptedRunError:
        raise
    except Exception as error:
        return _told(failed_run(error), config)


def failed_run(error: Exception) -> RoadError:
    """Return the error of a run as one of ours; the traceback of any other is logged."""
    if isinstance(error, RoadError):
        return error
    _log.error("%s", "".join(traceback.format_exception(error)))
    return RoadError(f"{type(error).__name__}: {error}")


def _is_stop(result: object) -> bool:
    return isinstance(result, InterruptedRunError)


def _told(error: RoadError, config: object, number: int = 0) -> RoadError:
    _log.error("%s failed; the others go on: %s", task_name(number, config), error)
    return error


def run_parallel(
    function: Callable[..., object],
    configs: Sequence[object],
    *extra: object,
    num_cpus: float = 1.0,
    num_gpus: float = 0.0,
    timeout_seconds: float,
    context: RunContext | None = None,
    return_errors: bool = False,
) -> list[Any]:
    """Return ``function(config, *extra, context=...)`` for every config, in order; as many run at
    once as the connected cluster has room for. Each gets a ``RunContext`` of its own, which stop
    requests to this process and to ``context`` reach.

    An error is logged at once and raised when all runs have ended; with ``return_errors`` only that
    of a stop is raised, any other stands in the place of its result. Raises ``ClusterError`` when
    no node has room for one; a run that exceeds ``timeout_seconds`` has that error.
    """
    import ray

    from road_ray.distributed.placement import check_placement
    from road_ray.distributed.train.supervisor import supervise
    from road_ray.distributed.train.worker_channel import WorkerChannel, connect_worker

    check_placement("run", 1, {"CPU": num_cpus, "GPU": num_gpus})
    directory, variables, channel = os.getcwd(), variables_for_workers(), WorkerChannel()

    def run(number: int, config: object) -> Any:
        torch.set_num_threads(max(1, int(num_cpus)))
        task_context = RunContext()
        with connect_worker(channel, number, task_context):
            if task_context.stop.is_set():
                return InterruptedRunError(f"run {number} was not started")
            try:
                return function(config, *extra, context=task_context)
            except Exception as error:
                return failed_run(error)

    def in_thread(number: int, config: object) -> Any:
        # While the main thread of a task waits for an answer (of the channel, of a teacher),
        # Ray lends its CPUs to another task, and two runs share them. Other threads keep theirs.
        with driver_environment(directory, variables), ThreadPoolExecutor(1) as thread:
            return thread.submit(run, number, config).result()

    task = ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=2)(in_thread)
    refs = [
        task.options(name=task_name(number, config)).remote(number, config)
        for number, config in enumerate(configs)
    ]
    try:
        results = supervise(lambda: _gathered(refs, configs, timeout_seconds), channel, context)
    finally:
        for ref in refs:
            ray.cancel(ref, force=True)
        channel.close()
    raised = InterruptedRunError if return_errors else RoadError
    for result in results:
        if isinstance(result, raised):
            raise result
    return list(results)


def task_name(number: int, config: object) -> str:
    """Return the end of a run's directory, which Ray puts before the lines that the run prints."""
    directory = getattr(config, "run_dir", None)
    return "/".join(Path(directory).parts[-2:]) if directory else f"run {number}"


def _gathered(
    refs: Sequence[object], configs: Sequence[object], timeout_seconds: float
) -> list[Any]:
    """Return the results of the tasks, and the error of those that fail or do not end within
    ``timeout_seconds``. Each error is logged when it is there.
    """
    import ray

    results: dict[object, Any] = {}
    unfinished, end = list(refs), time.monotonic() + timeout_seconds
    while unfinished and (left := end - time.monotonic()) > 0:
        finished, unfinished = ray.wait(unfinished, timeout=left)
        for ref in finished:
            results[ref] = _result_of(ref)
            if isinstance(results[ref], RoadError) and not _is_stop(results[ref]):
                number = refs.index(ref)
                _told(results[ref], configs[number], number)
    late = ClusterError(
        f"{len(unfinished)} of {len(refs)} runs did not end within {timeout_seconds:g} s"
    )
    return [results.get(ref, late) for ref in refs]


def _result_of(ref: object) -> Any:
    """Return the result of a finished task, or an error if its process died."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        return ray.get(ref, timeout=60)
    except RayTaskError as error:  # of what surrounds the recipe
        return failed_run(error)
    except RayError as error:
        return ClusterError(
            f"the process of a run died: {str(error).strip().splitlines()[0]}\n"
            "  fix: if its machine was out of memory, lower max_concurrent; the same command "
            "resumes\n  kept: the checkpoints"
        )
