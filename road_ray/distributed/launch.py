"""Where a recipe runs: in this process, in Ray Train workers, or as several runs side by side."""

from __future__ import annotations

import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from road_ray.distributed.tokens import asked_for, refuse_open
from road_ray.errors import ClusterError, InterruptedRunError, RoadError
from road_ray.training.signals import OUTSIDE
from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)
_MAX_FAILURES = 3  # restarts of the worker group; Ray's own default is none
_READ_AT_IMPORT = {  # by Ray; the last: what its helpers say every second
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "15",  # its 60 s are spent on a node that is gone
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # its 15 starves them wherever the driver's process works too
    "RAY_DEDUP_LOGS_SKIP_REGEX": "Failed to query Ray Train|arguments in the object store",
}

Main = Callable[..., dict[str, float]]


def launch(
    main: Main,
    config: Any,
    *extra: Any,
    workers: int = 0,
    gpus_per_worker: float = 0.0,
    address: str | None = None,
    scratch: Path = Path("runs"),
) -> dict[str, float]:
    """``main(config, worker, *extra)`` here (``workers = 0``) or in so many Ray Train workers; rank
    0's result.

    Errors of road_ray that a worker raises come out as they are. A worker that dies is restarted
    with its group, and ``main`` resumes from its own checkpoints.
    """
    if workers == 0:
        return main(config, Worker.alone(), *extra)
    with connected(address):
        return _fit(main, config, extra, workers, gpus_per_worker, scratch)


def prepared(address: str | None) -> str | None:
    """The cluster to join, if any; sets what Ray reads when it is imported, so must come first."""
    address = address or os.environ.get("RAY_ADDRESS")
    asked_for(create=address is None)
    for name, value in _READ_AT_IMPORT.items():
        os.environ.setdefault(name, value)
    return address


@contextmanager
def connected(
    address: str | None = None, *, num_cpus: int | None = None, dashboard: bool = False
) -> Iterator[None]:
    """Inside, this process is connected to Ray: the cluster at ``address``, the one already joined,
    or a new one, with its ``dashboard`` for those who ask it (Ray Train's cleaner does). Inside a
    Ray job that is the cluster of the job. A cluster that answers without a token is refused.
    """
    address = prepared(address)
    import ray

    from road_ray.distributed.own_cluster import start

    if ray.is_initialized():
        yield
        return
    joined = None
    try:
        if address is None:
            start(num_cpus, dashboard=dashboard)
        else:
            joined = ray.init(address=address, logging_level=logging.ERROR).dashboard_url
    except (ConnectionError, ValueError, TimeoutError) as error:
        raise ClusterError(
            f"address = {address}: no Ray cluster could be joined: {error}\n"
            "  fix: start one, check the address and the token, or leave the address out"
        ) from error
    try:
        if joined:
            refuse_open(joined)
        yield
    finally:
        ray.shutdown()


def _fit(
    main: Main,
    config: Any,
    extra: Sequence[Any],
    workers: int,
    gpus_per_worker: float,
    scratch: Path,
) -> dict[str, float]:
    from ray.train import FailureConfig, LoggingConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    from road_ray.distributed.board import Board, attended
    from road_ray.distributed.placement import check_placement, wait_for_room

    resources = {"CPU": 1.0, "GPU": gpus_per_worker}
    check_placement("workers", workers, resources, remedy=", or lower --workers")
    wait_for_room("workers", workers, {name: x for name, x in resources.items() if x})
    board = Board()
    name, storage = f"fit-{uuid.uuid4().hex[:12]}", Path(scratch).resolve() / ".ray"
    trainer = TorchTrainer(
        _on_worker,
        train_loop_config={
            "main": main,
            "config": config,
            "extra": tuple(extra),
            "board": board,
            "place": os.getcwd(),
        },
        torch_config=TorchConfig(backend="nccl" if gpus_per_worker else "gloo"),
        scaling_config=ScalingConfig(
            num_workers=workers,
            use_gpu=gpus_per_worker > 0,
            resources_per_worker={name: amount for name, amount in resources.items() if amount},
        ),
        run_config=RunConfig(
            # A name of its own: Ray would otherwise resume its own bookkeeping; the checkpoints
            # are ours.
            name=name,
            storage_path=str(storage),
            failure_config=FailureConfig(max_failures=_MAX_FAILURES),
            # Ray would print the traceback of every error; the last one is raised and told once.
            logging_config=LoggingConfig(log_level="CRITICAL"),
        ),
    )
    try:
        result = attended(lambda: _persistent(lambda: trainer.fit().return_value), board)
    except Exception as error:
        raise _unwrapped(error) or error from error
    finally:
        board.close()
        shutil.rmtree(storage / name, ignore_errors=True)  # nothing of ours is in there
        with suppress(OSError):
            storage.rmdir()
    metrics: dict[str, float] = result
    return metrics


def _persistent(fit: Callable[[], Any]) -> Any:
    """What ``fit`` gives, also when workers died while they were started: Ray's own limit of
    failures does not count these, it gives up at the first.
    """
    from ray.exceptions import RayActorError
    from ray.train import ControllerError

    for left in reversed(range(_MAX_FAILURES + 1)):
        try:
            return fit()
        except ControllerError as error:
            if not left or not isinstance(error.controller_failure, RayActorError):
                raise
            _log.warning("a worker died while it was started; starting again")
    raise AssertionError("unreachable")


def _on_worker(loop: Mapping[str, Any]) -> Any:
    """The training function of Ray Train: our own ``main`` with this process's worker.

    A ``RoadError`` will not go away by trying again, so it does not fail the worker, which would
    start the group again: it is pinned to the board, and the other workers come out of what they
    wait for because this one leaves their group.
    """
    import ray.train
    from ray.train.torch import get_device

    from road_ray.distributed.board import Board, listening

    context = ray.train.get_context()
    enter(loop["place"])
    board: Board = loop["board"]
    if board.failure() is not None:
        return None
    device = get_device() if torch.cuda.is_available() else torch.device("cpu")
    worker = Worker(context.get_world_rank(), context.get_world_size(), device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    with listening(board, worker.rank, _preempted):
        try:
            return loop["main"](loop["config"], worker, *loop["extra"])
        except RoadError as error:
            board.fail(error)
            if dist.is_initialized():
                dist.destroy_process_group()
            return None
        except Exception:
            time.sleep(1.0)  # another worker may be about to say why this one lost its group
            if board.failure() is not None:
                return None
            raise


def _preempted() -> bool:
    """Whether the machine of any worker is being taken away; all workers must ask together."""
    import ray.train

    return ray.train.get_preemption_info() is not None


def enter(place: str) -> None:
    """Relative paths of a configuration mean what they meant where it was given, if that is here
    too.
    """
    if Path(place).is_dir():
        os.chdir(place)


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


def side_by_side(
    function: Callable[..., Any],
    configs: Sequence[Any],
    *extra: Any,
    num_cpus: float = 1.0,
    num_gpus: float = 0.0,
    timeout_seconds: float,
) -> list[Any]:
    """``function(config, *extra)`` for every config, as many at once as the cluster has room for;
    results in their order. Raises the first error of ours; ``ClusterError`` when no node has room
    for one, or when ``timeout_seconds`` pass.
    """
    import ray

    from road_ray.distributed.board import Board, attended, listening
    from road_ray.distributed.placement import check_placement

    check_placement("run", 1, {"CPU": num_cpus, "GPU": num_gpus})
    place, board = os.getcwd(), Board()

    def one(number: int, config: Any) -> Any:
        enter(place)
        torch.set_num_threads(max(1, int(num_cpus)))
        with listening(board, number):
            if OUTSIDE.stop:
                return InterruptedRunError(f"run {number} was not begun")
            try:
                return function(config, *extra)
            except RoadError as error:
                return error

    task = ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=2)(one)
    refs = [task.remote(number, config) for number, config in enumerate(configs)]
    try:
        results = attended(lambda: _gathered(refs, timeout_seconds), board)
    finally:
        for ref in refs:
            ray.cancel(ref, force=True)
        board.close()
    for result in results:
        if isinstance(result, RoadError):
            raise result
    return list(results)


def _gathered(refs: Sequence[Any], timeout_seconds: float) -> list[Any]:
    """What the tasks gave. Raises ``ClusterError`` when time is over."""
    import ray

    _, waiting = ray.wait(list(refs), num_returns=len(refs), timeout=timeout_seconds)
    if waiting:
        raise ClusterError(
            f"{len(waiting)} of {len(refs)} runs did not end within {timeout_seconds:g} s"
        )
    return [ray.get(ref, timeout=60) for ref in refs]
