"""Several runs in parallel, each a Ray task."""

import logging
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import torch

from road_ray.distributed.connection import connected, driver_environment, environment_for_workers
from road_ray.errors import ClusterError, InterruptedRunError, RoadError, first_line
from road_ray.training.run_context import RunContext, StopRequest

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.2
_FAILED = "%s failed; the others go on: %s"


def run_all(
    function: Callable[..., object],
    configs: Mapping[str, object],
    settings: Any,
    context: RunContext | None = None,
    *,
    after: Mapping[str, Sequence[str]] = MappingProxyType({}),
    return_errors: bool = False,
) -> dict[str, Any]:
    """Return ``function(config, context=...)`` by the name of every config, in order: one after the
    other for ``max_concurrent = 0``, else in parallel, on a core each, on the cluster at
    ``address``, or on a new one with ``max_concurrent`` CPUs; these are keys of ``settings``, as is
    ``gpus_per_worker``. Parallel runs get a ``RunContext`` of their own, which stop requests to
    this process and to ``context`` reach. Ray puts the name before the lines that a run prints.

    ``after`` has the names of earlier configs that must have ended before one of them; it is not
    run if one of these failed. With ``return_errors`` a run that fails, with whatever
    exception, does not end the others: a ``RoadError`` stands in the place of its result and is
    logged at once. A stop is raised. Without, the first error is raised; that of parallel runs when
    all have ended. Raises ``ClusterError`` when no node has room for a parallel run.
    """
    if settings.max_concurrent:
        cpus = settings.max_concurrent if settings.address is None else None
        with connected(settings.address, num_cpus=cpus):
            task = _task(function, settings.gpus_per_worker)
            ended = _results(task, configs, after, context or RunContext())
        for result in ended.values():
            if isinstance(result, InterruptedRunError if return_errors else RoadError):
                raise result
        return ended
    results: dict[str, Any] = {}
    for name, config in configs.items():
        results[name] = _not_run(after.get(name, ()), results)
        try:
            results[name] = results[name] or function(config, context=context)
        except Exception as error:
            if isinstance(error, InterruptedRunError) or not return_errors:
                raise
            results[name] = failed_run(error)
            _log.error(_FAILED, name, results[name])
    return results


def _not_run(needed: Sequence[str], results: Mapping[str, Any]) -> RoadError | None:
    """Return the error of a run that needs a failed one, or None."""
    for name in needed:
        error = results[name]
        if isinstance(error, NotRunError):
            return error
        if isinstance(error, RoadError):
            return NotRunError(f"{name} failed: {error}")
    return None


class NotRunError(RoadError):
    """A run that needs another one which failed."""


def failed_run(error: Exception, trace: str = "") -> RoadError:
    """Return the error of a run as one of ours; the traceback of any other is logged."""
    if isinstance(error, RoadError):
        return error
    _log.error("%s", trace or "".join(traceback.format_exception(error)))
    return RoadError(f"{type(error).__name__}: {error}")


def _task(function: Callable[..., object], num_gpus: float) -> Any:
    """Return the task of Ray that runs a config, on the connected cluster."""
    import ray

    from road_ray.distributed.room import room

    room("run", 1, {"CPU": 1.0, "GPU": num_gpus})
    environment = environment_for_workers()

    def in_thread(config: object, *needed: object) -> Any:
        # While the main thread of a task waits for an answer (of a teacher), Ray lends its CPUs to
        # another task, and two runs share them. Other threads keep theirs.
        task_context = RunContext()
        threads = ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,))
        with driver_environment(environment), threads:
            result = threads.submit(function, config, context=task_context)
            try:
                while not result.done():
                    time.sleep(_POLL_SECONDS)
            except KeyboardInterrupt:  # how Ray cancels a task
                task_context.stop.set()
            return result.result()

    return ray.remote(num_cpus=1, num_gpus=num_gpus, max_retries=2)(in_thread)


def _results(
    task: Any,
    configs: Mapping[str, object],
    after: Mapping[str, Sequence[str]],
    context: RunContext,
) -> dict[str, Any]:
    """Return the results of ``task`` for every config, and the error of those that fail or need a
    failed one. Each error is logged when it is there. SIGTERM, Ctrl-C and ``context.stop`` stop all
    tasks.
    """
    import ray

    refs: dict[str, Any] = {}
    # Ray starts a task when those it needs have ended, and none that needs a failed one.
    for name, config in configs.items():
        needed = (refs[other] for other in after.get(name, ()))
        refs[name] = task.options(name=name).remote(config, *needed)
    results: dict[str, Any] = {}
    running, stopping = {ref: name for name, ref in refs.items()}, False
    try:
        with StopRequest() as request:
            while running:
                ended = results.keys()
                next_ones = [r for r, name in running.items() if ended >= {*after.get(name, ())}]
                for ref in ray.wait(next_ones, timeout=_POLL_SECONDS)[0]:
                    name = running.pop(ref)
                    result = _not_run(after.get(name, ()), results) or _result_of(ref)
                    results[name] = result
                    if not isinstance(result, RoadError):
                        _log.info("%s has ended, %d of %d", name, len(results), len(configs))
                    elif not isinstance(result, NotRunError | InterruptedRunError):
                        _log.error(_FAILED, name, result)
                if not stopping and (request.requested or context.stop.is_set()):
                    stopping = True
                    _log.warning("stopping after the step in progress; repeat to stop at once")
                    for ref in running:
                        ray.cancel(ref)
    finally:
        for ref in running:  # never one that has answered: Ray 2.60 aborts this process
            ray.cancel(ref)
    return {name: results[name] for name in configs}


def _result_of(ref: object) -> Any:
    """Return the result of a finished task, or an error if its process died."""
    import ray
    from ray import exceptions as of_ray
    from ray.exceptions import RayError, RayTaskError

    try:
        return ray.get(ref, timeout=60)
    except of_ray.TaskCancelledError:
        return InterruptedRunError("a run was not started")
    except RayTaskError as error:
        return failed_run(error.cause, str(error))
    except of_ray.UnserializableException as error:  # of a class with arguments of its own
        _log.error("%s", error)
        return RoadError(str(error).strip().rpartition("\n")[2])
    except RayError as error:
        return ClusterError(
            f"the process of a run died: {first_line(error)}\n"
            "  fix: if its machine was out of memory, lower max_concurrent; the same command "
            "resumes\n  kept: the checkpoints"
        )
