"""Network settings of a worker group: workers connect by the node addresses that Ray uses, not by
host names, which often resolve to 127.0.0.1.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
from ray.train.torch import TorchConfig

from road_ray.distributed.ray_private import (
    TorchBackend,
    has_dashboard,
    propagate_environment_variable,
)

_GLOO = "GLOO_SOCKET_IFNAME"
_ADDRESS_OF_INTERFACE = 0x8915  # SIOCGIFADDR, linux/sockios.h


@dataclass
class ByNodeAddress(TorchConfig):  # type: ignore[misc]  # Ray does not type it
    """Ray Train's process group, over the interface of the node's address."""

    timeout_s: int = 7 * 86400
    """Timeout of a collective operation. Ray's default of 30 minutes would end groups whose leader
    evaluates or uploads for longer while the others wait. Ray ends a group with a worker that dies
    or does not answer, and one that hangs in a collective of NCCL (connection.py).
    """

    @property
    def backend_cls(self) -> type[TorchBackend]:
        return _Backend


class _Backend(TorchBackend):  # type: ignore[misc]
    def on_start(self, worker_group: Any, backend_config: TorchConfig) -> None:
        worker_group.execute(use_interface_of_node)
        super().on_start(worker_group, backend_config)


def use_interface_of_node() -> None:
    """Make Gloo in this process use the interface of the node's address, unless the user has set
    one.
    """
    if _GLOO not in os.environ and (name := interface_of(ray.util.get_node_ip_address())):
        os.environ[_GLOO] = name


def interface_of(address: str) -> str | None:
    """Return the network interface with this IPv4 address, or None; None outside of Linux."""
    if sys.platform != "linux":
        return None
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(datagram.fileno(), _ADDRESS_OF_INTERFACE, request)
            except OSError:  # it has no address
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None


@contextmanager
def named_cluster() -> Iterator[None]:
    """Pass the address of a cluster with a dashboard to the processes of Ray Train. Its clean-up of
    placement groups, which needs the dashboard, would otherwise look for the only cluster on the
    machine and fail where there are several, and the resources of stopped workers would never
    become free.
    """
    if not has_dashboard():
        yield
        return
    before = os.environ.get("RAY_ADDRESS")
    os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
    propagate_environment_variable("RAY_ADDRESS")
    try:
        yield
    finally:
        if before is None:
            del os.environ["RAY_ADDRESS"]
        else:
            os.environ["RAY_ADDRESS"] = before
