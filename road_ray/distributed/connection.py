"""Connection of this process to a Ray cluster: an existing one, the one of a job, or a new one."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from road_ray.distributed.auth import refuse_open_cluster, require_token
from road_ray.errors import ClusterError

_READ_AT_IMPORT = {  # by Ray; the last: what its helpers say every second
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "1",  # so often a dead worker is looked for; its 2 s
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "15",  # its 60 s are spent on a node that is gone
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # its 15 starves them wherever the driver's process works too
    "RAY_DEDUP_LOGS_SKIP_REGEX": "Failed to query Ray Train|arguments in the object store",
}


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


def prepare_address(address: str | None) -> str | None:
    """The cluster to join, if any; sets what Ray reads when it is imported, so must come first."""
    address = address_of(address)
    require_token(create=address is None)
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
    address = prepare_address(address)
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
            refuse_open_cluster(joined)
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


def enter_directory(place: str) -> None:
    """Relative paths of a configuration mean what they meant where it was given, if that is here
    too.
    """
    if Path(place).is_dir():
        os.chdir(place)
