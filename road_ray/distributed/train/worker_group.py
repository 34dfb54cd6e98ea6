"""A group of Ray Train workers for one training, started again when one of them dies."""

from __future__ import annotations

import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
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
from ray.train.torch import get_device

from road_ray.distributed.connection import enter_directory
from road_ray.distributed.network import ByNodeAddress, named_cluster
from road_ray.distributed.placement import check_placement, wait_for_room
from road_ray.distributed.train import start_timeout
from road_ray.distributed.train.coordinator import Coordinator, connect_worker
from road_ray.distributed.train.elastic import ElasticTrainer
from road_ray.distributed.train.supervisor import supervise
from road_ray.errors import ClusterError, RoadError
from road_ray.training.monitoring import trackers
from road_ray.training.monitoring.oom import REMEDY, oom_as_error
from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)
_MAX_FAILURES = 3  # restarts of the worker group; Ray's own default is none
_GROWS_AFTER_SECONDS = 60.0  # a group that may be larger looks so often whether there is room


def fit_worker_group(
    main: Callable[..., dict[str, float]],
    config: Any,
    extra: Sequence[Any],
    *,
    workers: int,
    min_workers: int | None,
    gpus_per_worker: float,
    scratch: Path,
) -> dict[str, float]:
    """``main(config, worker, *extra)`` in so many workers, or in as many as there is room for but
    ``min_workers``; rank 0's result. The cluster is connected.
    """
    resources = {"CPU": 1.0, "GPU": gpus_per_worker}
    asked = {name: amount for name, amount in resources.items() if amount}
    least = min_workers or workers
    check_placement("workers", least, asked, remedy=", or lower --workers")
    wait_for_room("workers", least, asked)
    coordinator, see = Coordinator(), trackers.row_callback()
    name, storage = f"fit-{uuid.uuid4().hex[:12]}", Path(scratch).resolve() / ".ray"
    # What is there already is of a driver that was killed: the directory is this process's alone.
    shutil.rmtree(storage, ignore_errors=True)
    settings = {"main": main, "config": config, "extra": tuple(extra), "place": os.getcwd()}
    settings |= {"board": coordinator, "watched": see is not None}
    trainer = ElasticTrainer(
        _on_worker,
        train_loop_config=settings,
        torch_config=ByNodeAddress(backend="nccl" if gpus_per_worker else "gloo"),
        scaling_config=ScalingConfig(
            num_workers=workers if least == workers else (least, workers),
            use_gpu=gpus_per_worker > 0,
            resources_per_worker=asked,
            elastic_resize_monitor_interval_s=_GROWS_AFTER_SECONDS,
        ),
        run_config=_run_config(name, storage, coordinator),
    )
    try:
        with named_cluster():
            result = supervise(
                lambda: _persistent(lambda: trainer.fit().return_value, coordinator.furthest),
                coordinator,
                see,
            )
    except Exception as error:
        raise _told_to_the_user(error) from error
    finally:
        coordinator.close()
        shutil.rmtree(storage / name, ignore_errors=True)  # nothing of ours is in there
        with suppress(OSError):
            storage.rmdir()
    metrics: dict[str, float] = result
    return metrics


def _run_config(name: str, storage: Path, coordinator: Coordinator) -> RunConfig:
    """Return Ray Train's settings of a run. ``name`` is new for each: with an old one Ray would
    resume its own bookkeeping, and the checkpoints are ours.
    """
    return RunConfig(
        name=name,
        storage_path=str(storage),
        failure_config=FailureConfig(max_failures=_MAX_FAILURES),
        callbacks=[
            _Deaths(coordinator),
            start_timeout.StartDeadline(start_timeout.START_SECONDS),
        ],
        # Ray would print the traceback of every error; the last one is raised and told once.
        logging_config=LoggingConfig(log_level="CRITICAL"),
    )


class _Deaths(UserCallback):  # type: ignore[misc]  # Ray does not type it
    """Pins to the board which workers failed, and why; lives beside Ray's controller."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._board = coordinator

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        self._board.died({rank: str(error) for rank, error in worker_exceptions.items()})


def _persistent(fit: Callable[[], Any], furthest: Callable[[], int]) -> Any:
    """What ``fit_worker_group`` gives, tried again whenever it failed further on than ever before:
    a long run may meet any number of deaths, a broken one ends after a few.

    Also when workers died while they were started: Ray itself gives up at the first of those.
    """
    left, reached = _MAX_FAILURES, 0
    while True:
        try:
            return fit()
        except ControllerError as error:
            if not left or not isinstance(error.controller_failure, RayActorError):
                raise
            left -= 1
            _log.warning("a worker died while it was started; starting again")
        except RayActorError:
            if not left:
                raise
            left -= 1
            _log.warning(
                "the controller of the workers is gone: killed, or they were not up within %g s, "
                "as when one hangs in an import; starting again",
                start_timeout.START_SECONDS,
            )
        except WorkerGroupError:
            if (now := furthest()) <= reached:
                raise
            left, reached = _MAX_FAILURES, now
            _log.warning("workers failed often, but got as far as step %d; starting again", now)


def _on_worker(loop: Mapping[str, Any]) -> Any:
    """The training function of Ray Train: our own ``main`` with this process's worker.

    A ``RoadError`` will not go away by trying again, so it does not fail the worker, which would
    start the group again: it is pinned to the board, and the other workers come out of what they
    wait for because this one leaves their group.
    """
    context = ray.train.get_context()
    enter_directory(loop["place"])
    coordinator: Coordinator = loop["board"]
    if coordinator.failure() is not None:
        return None
    device = get_device() if torch.cuda.is_available() else torch.device("cpu")
    worker = Worker(context.get_world_rank(), context.get_world_size(), device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    with connect_worker(coordinator, worker.rank, _preempted):
        try:
            with (
                oom_as_error(worker.rank),
                _told(coordinator) if loop["watched"] else nullcontext(),
            ):
                return loop["main"](loop["config"], worker, *loop["extra"])
        except RoadError as error:
            coordinator.fail(error)
            if dist.is_initialized():
                dist.destroy_process_group()
            return None
        except Exception:
            time.sleep(1.0)  # another worker may be about to say why this one lost its group
            if coordinator.failure() is not None:
                return None
            raise


def _told(coordinator: Coordinator) -> AbstractContextManager[None]:
    """Inside, rows of this process's journal reach whoever watches the driver."""
    return trackers.with_row_callback(coordinator.row)


def _preempted() -> bool:
    """Whether the machine of any worker is being taken away; all workers must ask together."""
    return ray.train.get_preemption_info() is not None


def _told_to_the_user(error: Exception) -> Exception:
    """The error of ours inside Ray's; of workers that died again and again one that says so; else
    Ray's own, whose traceback shows where in a worker it was raised.
    """
    failures = [*getattr(error, "worker_failures", {}).values()]
    failures = failures or [getattr(error, "controller_failure", error)]
    deaths = [one for one in failures if isinstance(one, RayActorError)]
    if (ours := _unwrapped(error)) is not None or not deaths:
        return ours or error
    cause = (str(deaths[0]).strip().splitlines() or ["without a word"])[0]
    return ClusterError(
        f"workers died again and again, and got no further: {cause}\n"
        f"  was it for memory? then: {REMEDY}\n"
        "  kept: the checkpoints; the same command goes on from the newest"
    )


def _unwrapped(error: BaseException) -> RoadError | None:
    """The error of ours inside Ray's, if there is one."""
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
