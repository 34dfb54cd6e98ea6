"""Connection of this process to a Ray cluster: a running one, the one of a job, or a new one."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from road_ray.distributed.cluster_token import refuse_open_head, require_token
from road_ray.distributed.room import SCALE_UP_VARIABLE
from road_ray.errors import ClusterError
from road_ray.system.files import CACHE

_REPEATED = "Failed to query Ray Train|arguments in the object store"
_READ_AT_IMPORT = {  # by Ray
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "1",  # default 2: seconds until a dead worker is noticed
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "15",  # default 60: too long for a node that is gone
    # Default 600: seconds until a worker that does not answer is ended; enough for one that swaps.
    "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": "120",
    # End groups that hang in a collective of NCCL for ten minutes.
    "RAY_TRAIN_ENABLE_NCCL_HANG_DETECTOR": "1",
    "RAY_TRAIN_NCCL_RAS_ACTION": "fail",
    "RAY_TRAIN_NCCL_RAS_CONFIRM_DURATION_S": "600",
    # Default 5; a proxy that takes three times as long to import its modules is killed.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    "RAY_WARN_BLOCKING_GET_INSIDE_ASYNC": "0",  # as Ray Train has it in its controller
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # default 15: starves workers where the driver works too
    "RAY_COLOR_PREFIX": "0",  # lines of other processes, also in files
    # Drop messages that Ray's helpers repeat every second, and pass all others on as they are:
    # without "[repeated 2x across cluster]" in green.
    "RAY_DEDUP_LOGS_SKIP_REGEX": _REPEATED,
    "RAY_DEDUP_LOGS_ALLOW_REGEX": f"^(?!.*(?:{_REPEATED}))",
}
# Variables that a run reads and that must agree with the driver's. ROAD_DEVICE is not one of them:
# it depends on the machine.
_SHARED_WITH_WORKERS = ("ROAD_DATA", CACHE, SCALE_UP_VARIABLE)


def check_machine(workers: int, address: str | None) -> None:
    """Raise ``ClusterError`` if a new cluster on this machine has fewer CPUs than ``workers``.
    Called before the data are read and the cluster starts, which takes half a minute.
    """
    cores = os.cpu_count() or workers
    if workers <= cores or address_of(address) or is_joined():
        return
    raise ClusterError(
        f"workers = {workers} do not fit on this machine: each needs a core, and it has {cores}"
        f"\n  fix: --workers {cores} or fewer, or the address of a larger cluster (--address)\n"
        "  kept: nothing was started"
    )


def is_joined() -> bool:
    """Return True if this process uses a cluster already."""
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def address_of(address: str | None) -> str | None:
    """Return the address of the cluster to join, as given or from the surrounding Ray job, or
    None.
    """
    return address or os.environ.get("RAY_ADDRESS") or None


def prepare_address(address: str | None) -> str | None:
    """Return ``address_of(address)``; set the variables that Ray reads at import, so call it before
    Ray is imported.
    """
    address = address_of(address)
    require_token(create=address is None)
    set_ray_defaults()
    return address


def set_ray_defaults() -> None:
    """Set the environment variables of our defaults for Ray, except those that are set already. A
    cluster that this process starts afterwards has them in all of its processes.
    """
    for name, value in _READ_AT_IMPORT.items():
        os.environ.setdefault(name, value)


@contextmanager
def connected(
    address: str | None = None, *, num_cpus: int | None = None, dashboard: bool = False
) -> Iterator[None]:
    """Connect this process to Ray: to the cluster it already uses, else to the one at ``address``
    or of the surrounding Ray job, else to a new one with ``num_cpus`` CPUs. ``dashboard`` starts
    the new one's, which Ray Train's clean-up needs.

    Raises ``ClusterError`` for a cluster that cannot be joined or that accepts requests without a
    token.
    """
    address = prepare_address(address)
    import ray

    from road_ray.distributed.local_cluster import start

    if ray.is_initialized():
        yield
        return
    try:
        if address is None:
            start(num_cpus, dashboard=dashboard)
        else:
            _require_answer(address)
            ray.init(address=address, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, TimeoutError) as error:
        raise ClusterError(
            f"address = {address}: no Ray cluster could be joined: {error}\n"
            "  fix: start one, check the address and the token, or leave the address out"
        ) from error
    try:
        if address is not None:
            refuse_open_head(ray.get_runtime_context().gcs_address)
        yield
    finally:
        ray.shutdown()


def _require_answer(address: str) -> None:
    """Raise ``ConnectionError`` where nothing listens; Ray would wait for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "//" in address:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except OSError as error:  # also for an unknown host name
        raise ConnectionError(f"nothing answers there ({error})") from error


def variables_for_workers() -> dict[str, str]:
    """Return the environment variables of this process for ``driver_environment``."""
    return {name: os.environ[name] for name in _SHARED_WITH_WORKERS if name in os.environ}


@contextmanager
def driver_environment(directory: str, variables: Mapping[str, str]) -> Iterator[None]:
    """Give this worker process the driver's working directory, if it exists here, and in the body
    the driver's ``variables``, so that a configuration means the same in both. Variables that the
    driver does not have stay as they are.

    Entered once a task, before its run: on a running cluster, Ray starts workers in a directory of
    its own and with the environment of their machine, and one process may run several tasks.
    """
    from road_ray.distributed.local_cluster import temporary_variables

    if Path(directory).is_dir():
        os.chdir(directory)
    with temporary_variables(variables):
        yield
