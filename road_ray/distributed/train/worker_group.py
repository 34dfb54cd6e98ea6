"""A group of Ray Train workers for one training, started again when one of them dies."""

from __future__ import annotations

import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray.train
import torch
import torch.distributed as dist
from ray.exceptions import RayActorError
from ray.train import (
    ControllerError,
    FailureConfig,
    LoggingConfig,
    RunConfig,
    ScalingConfig,
    UserCallback,
    WorkerGroupError,
)
from ray.train.torch import TorchConfig, TorchTrainer, get_device

from road_ray.distributed.connection import driver_environment, variables_for_workers
from road_ray.distributed.local_cluster import temporary_variables
from road_ray.distributed.placement import check_placement, wait_for_room
from road_ray.distributed.ray_private import propagate_environment_variable
from road_ray.distributed.train.gpu_check import check_gpus
from road_ray.distributed.train.supervisor import supervise
from road_ray.distributed.train.worker_channel import WorkerChannel, connect_worker
from road_ray.errors import ClusterError, RoadError
from road_ray.training.monitoring.out_of_memory import REMEDY, oom_as_error
from road_ray.training.run_context import RunContext
from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)
_MAX_FAILURES = 3  # restarts of the worker group; Ray's own default is none
_GROWS_AFTER_SECONDS = 60.0  # between two checks for room for more workers
# Of a step: while rank 0 evaluates or saves, the others wait in a barrier of their own.
_COLLECTIVE_SECONDS = 1800


def fit_worker_group(
    main: Callable[..., dict[str, float]],
    config: object,
    extra: Sequence[object],
    *,
    context: RunContext,
    workers: int,
    min_workers: int | None,
    gpus_per_worker: float,
    scratch: Path,
) -> dict[str, float]:
    """Run ``main(config, worker, context, *extra)`` in ``workers`` workers, or in as many as there
    is room for but at least ``min_workers``; return the result of rank 0. Ray is connected.

    ``context`` is the driver's; each worker makes its own (see ``_on_worker``).
    """
    resources = {name: n for name, n in (("CPU", 1.0), ("GPU", gpus_per_worker)) if n}
    minimum = min_workers or workers
    _require_room(minimum, resources)
    channel = WorkerChannel()
    name, storage = f"fit-{uuid.uuid4().hex[:12]}", Path(scratch).resolve() / ".ray"
    # Earlier files are of a driver that was killed: the directory belongs to this process.
    shutil.rmtree(storage, ignore_errors=True)
    settings = {
        "main": main,
        "config": config,
        "extra": tuple(extra),
        "environment": (os.getcwd(), variables_for_workers()),
        "channel": channel,
        "report_rows": context.on_row is not None,
    }
    trainer = _trainer(settings, minimum, workers, resources, name, storage)
    # Ray Train's clean-up of placement groups looks for the only cluster on the machine, and fails
    # where there are several, unless it is told.
    propagate_environment_variable("RAY_ADDRESS")
    try:
        with temporary_variables({"RAY_ADDRESS": ray.get_runtime_context().gcs_address}):
            result = supervise(
                lambda: _persistent(lambda: trainer.fit().return_value, channel.furthest),
                channel,
                context,
            )
    except Exception as error:
        raise _user_error(error) from error
    finally:
        channel.close()
        shutil.rmtree(storage / name, ignore_errors=True)  # only Ray's own files
        with suppress(OSError):
            storage.rmdir()
    metrics: dict[str, float] = result
    return metrics


def _require_room(workers: int, resources: Mapping[str, float]) -> None:
    """Raise ``ClusterError`` unless so many workers fit and can use their GPUs."""
    check_placement("workers", workers, resources, remedy=", or lower --workers")
    if "GPU" in resources:
        check_gpus()
    wait_for_room(workers, resources)


def _trainer(
    settings: Mapping[str, Any],
    minimum: int,
    workers: int,
    resources: Mapping[str, float],
    name: str,
    storage: Path,
) -> TorchTrainer:
    """Return Ray's trainer. ``name`` is new for each: with an old one Ray would resume its own
    bookkeeping, and the checkpoints are ours.
    """
    return TorchTrainer(
        _on_worker,
        train_loop_config={"settings": ray.put(settings)},  # the controller need not load them
        torch_config=TorchConfig(
            backend="nccl" if "GPU" in resources else "gloo", timeout_s=_COLLECTIVE_SECONDS
        ),
        scaling_config=ScalingConfig(
            num_workers=workers if minimum == workers else (minimum, workers),
            use_gpu="GPU" in resources,
            resources_per_worker=dict(resources),
            elastic_resize_monitor_interval_s=_GROWS_AFTER_SECONDS,
        ),
        run_config=RunConfig(
            name=name,
            storage_path=str(storage),
            failure_config=FailureConfig(max_failures=_MAX_FAILURES),
            callbacks=[_Deaths(settings["channel"])],
            # Ray would print the traceback of every error; the last one is raised.
            logging_config=LoggingConfig(log_level="CRITICAL"),
        ),
    )


class _Deaths(UserCallback):  # type: ignore[misc]  # Ray does not type it
    """Reports workers that died to the channel; lives beside Ray's controller."""

    def __init__(self, channel: WorkerChannel) -> None:
        self._channel = channel

    def after_exception(self, run_context: object, worker_exceptions: dict[int, Exception]) -> None:
        self._channel.died({rank: str(error) for rank, error in worker_exceptions.items()})


def _persistent(fit: Callable[[], Any], furthest: Callable[[], int]) -> Any:
    """Return the result of ``fit``, repeated as long as each failure comes after more steps than
    the one before: a long run survives any number of deaths, a broken one ends after a few.

    Also repeated when workers die during their start, where Ray itself gives up at the first.
    """
    retries_left, reached = _MAX_FAILURES, 0
    while True:
        try:
            return fit()
        except ControllerError as error:
            if not retries_left or not isinstance(error.controller_failure, RayActorError):
                raise
            retries_left -= 1
            _log.warning("a worker died during its start; restarting")
        except RayActorError:
            if not retries_left:
                raise
            retries_left -= 1
            _log.warning("the controller of the workers is gone; restarting")
        except WorkerGroupError:
            if (now := furthest()) <= reached:
                raise
            retries_left, reached = _MAX_FAILURES, now
            _log.warning("workers failed often, but reached step %d; restarting", now)


def _on_worker(config: Mapping[str, ray.ObjectRef]) -> Any:
    """Training function of Ray Train: run ``main`` with the worker and the context of this process.

    A retry does not cure a ``RoadError``, so it must not fail the worker, which would restart the
    group: it goes to the channel, and the other workers stop waiting because this one leaves
    their process group.
    """
    settings = ray.get(config["settings"])
    channel: WorkerChannel = settings["channel"]
    if channel.failure() is not None:
        return None
    group = ray.train.get_context()
    device = get_device() if torch.cuda.is_available() else torch.device("cpu")
    worker = Worker(group.get_world_rank(), group.get_world_size(), device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    on_row = channel.row if settings["report_rows"] else None
    context = RunContext(on_row=on_row, preempted=_preempted)
    with (
        driver_environment(*settings["environment"]),
        connect_worker(channel, worker.rank, context, worker.size),
    ):
        try:
            with oom_as_error(worker.rank, context):
                return settings["main"](settings["config"], worker, context, *settings["extra"])
        except RoadError as error:
            channel.fail(error)
            if dist.is_initialized():
                dist.destroy_process_group()
            return None
        except Exception:
            time.sleep(1.0)  # another worker may be about to report why this one lost its group
            if channel.failure() is not None:
                return None
            raise


def _preempted() -> bool:
    """Return True when the machine of any worker is about to be taken away; collective."""
    return ray.train.get_preemption_info() is not None


def _user_error(error: Exception) -> Exception:
    """Return the ``RoadError`` inside Ray's error; a ``ClusterError`` for workers that died again
    and again; else Ray's error, whose traceback shows where in a worker it was raised.
    """
    failures = [*getattr(error, "worker_failures", {}).values()]
    failures = failures or [getattr(error, "controller_failure", error)]
    deaths = [failure for failure in failures if isinstance(failure, RayActorError)]
    if (inner := _unwrapped(error)) is not None or not deaths:
        return inner or error
    cause = (str(deaths[0]).strip().splitlines() or ["no message"])[0]
    return ClusterError(
        f"workers died again and again, and got no further: {cause}\n"
        f"  was it for memory? then: {REMEDY}\n"
        "  kept: the checkpoints; the same command resumes from the newest"
    )


def _unwrapped(error: BaseException) -> RoadError | None:
    """Return the ``RoadError`` inside Ray's error, if there is one."""
    waiting, seen = [error], set[int]()
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, RoadError):
            return inner
        if id(inner) in seen:
            continue
        seen.add(id(inner))
        waiting += getattr(inner, "worker_failures", {}).values()
        causes = (inner.__cause__, getattr(inner, "cause", None))
        waiting += [cause for cause in causes if isinstance(cause, BaseException)]
    return None
