"""Connection of this process to a Ray cluster: a running one, the one of a job, or a new one on
this machine that lives as long as the process.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from road_ray.distributed.cluster_token import lets_anybody_join, refuse_open, require_token
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
_log = logging.getLogger(__name__)
_ATTEMPTS = 3  # to start; a machine full of other work makes the first one miss Ray's limit
# Ray would show its metrics to other machines, without a token. Those of its dashboard and its
# autoscaler have no switch; their servers do not start without a port.
_NO_METRICS = {"DASHBOARD_METRIC_PORT": "-1", "AUTOSCALER_METRIC_PORT": "-1"}


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
            refuse_open(ray.get_runtime_context().gcs_address, lets_anybody_join)
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

    if Path(directory).is_dir():
        os.chdir(directory)
    with temporary_variables(variables):
        yield


def start(num_cpus: int | None, *, dashboard: bool) -> None:
    """Start a cluster and join it; try again if it is not up within Ray's 30 s, which cannot be
    changed. Raises ``ClusterError`` if the last attempt fails too.
    """
    import ray

    _log.info("starting Ray on this machine")
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            with temporary_variables(_NO_METRICS):
                ray.init(
                    address="local",
                    num_cpus=num_cpus,
                    include_dashboard=dashboard,
                    log_to_driver=True,
                    logging_level=logging.ERROR,
                    _system_config={"enable_metrics_collection": False},
                )
            return
        except Exception as error:
            if type(error) is not Exception:  # Ray raises a plain one for a failed start
                raise
            ray.shutdown()  # ends what this attempt has started
            if not attempts_left:
                raise ClusterError(
                    f"Ray could not be started on this machine in {_ATTEMPTS} attempts: {error}\n"
                    f"  seen: {_load()}\n"
                    "  fix: run the same command again when the machine is less busy, or give the "
                    "address of a running cluster (`ray start --head`, then --address auto)\n"
                    "  kept: what was there before"
                ) from error
            _log.warning("Ray was not up within its 30 s (%s); trying again", _load())


@contextmanager
def temporary_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables in the body and restore them afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _load() -> str:
    return f"{os.getloadavg()[0]:.0f} processes at work on {os.cpu_count()} cores"
