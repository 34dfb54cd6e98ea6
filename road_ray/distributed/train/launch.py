"""Where a recipe runs: in this process, in Ray Train workers, or as several runs side by side."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from road_ray.distributed.auth import asked_for, refuse_open
from road_ray.errors import ClusterError, InterruptedRunError, RoadError
from road_ray.training.monitoring.oom import watched
from road_ray.training.signals import OUTSIDE
from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)
_READ_AT_IMPORT = {  # by Ray; the last: what its helpers say every second
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "1",  # so often a dead worker is looked for; its 2 s
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
    least_workers: int | None = None,
    gpus_per_worker: float = 0.0,
    address: str | None = None,
    scratch: Path = Path("runs"),
) -> dict[str, float]:
    """``main(config, worker, *extra)`` here (``workers = 0``) or in so many Ray Train workers; rank
    0's result. With ``least_workers`` a group that lost machines goes on with fewer, down to so
    many, and grows again.

    Errors of road_ray that a worker raises come out as they are. A worker that dies is restarted
    with its group, and ``main`` resumes from its own checkpoints.
    """
    if workers == 0:
        with watched(0):
            return main(config, Worker.alone(), *extra)
    with connected(address):
        from road_ray.distributed.train.worker_group import fit

        return fit(
            main,
            config,
            extra,
            workers=workers,
            least_workers=least_workers,
            gpus_per_worker=gpus_per_worker,
            scratch=scratch,
        )


def check_machine(workers: int, address: str | None) -> None:
    """Raises ``ClusterError`` for more workers than a cluster of our own would hold: at once, where
    its start and the data before it would take half a minute.
    """
    cores = os.cpu_count() or workers
    joined = "ray" in sys.modules and sys.modules["ray"].is_initialized()
    if workers <= cores or address_of(address) or joined:
        return
    raise ClusterError(
        f"workers = {workers} find no place on this machine: each takes a core, and it has {cores}"
        f"\n  fix: --workers {cores} or fewer, or the address of a larger cluster (--address)\n"
        "  kept: nothing was started"
    )


def address_of(address: str | None) -> str | None:
    """The cluster to join, if any: the one that is named, or Ray's own choice inside a job."""
    return address or os.environ.get("RAY_ADDRESS")


def prepared(address: str | None) -> str | None:
    """The cluster to join, if any; sets what Ray reads when it is imported, so must come first."""
    address = address_of(address)
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

    from road_ray.distributed.local_cluster import start

    if ray.is_initialized():
        yield
        return
    joined = None
    try:
        if address is None:
            start(num_cpus, dashboard=dashboard)
        else:
            _require_answer(address)
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


def _require_answer(address: str) -> None:
    """Raises ``ConnectionError`` where nobody listens, which Ray would wait for by the minute."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "//" in address:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except OSError as error:  # a name that is unknown, too
        raise ConnectionError(f"nobody answers there ({error})") from error


def enter(place: str) -> None:
    """Relative paths of a configuration mean what they meant where it was given, if that is here
    too.
    """
    if Path(place).is_dir():
        os.chdir(place)


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

    from road_ray.distributed.placement import check_placement
    from road_ray.distributed.train.coordinator import Board, listening
    from road_ray.distributed.train.supervisor import attended

    check_placement("run", 1, {"CPU": num_cpus, "GPU": num_gpus})
    place, board = os.getcwd(), Board()

    def run(number: int, config: Any) -> Any:
        torch.set_num_threads(max(1, int(num_cpus)))
        with listening(board, number):
            if OUTSIDE.stop:
                return InterruptedRunError(f"run {number} was not begun")
            try:
                return function(config, *extra)
            except RoadError as error:
                return error

    def one(number: int, config: Any) -> Any:
        enter(place)
        # Ray lends a task's processors to the next one while its main thread waits for an answer
        # (the board's, a teacher's), and two runs then share them; those of other threads it keeps.
        with ThreadPoolExecutor(1) as own_thread:
            return own_thread.submit(run, number, config).result()

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
