"""How the workers of a group reach each other: by the address under which Ray knows their machine,
not by what the machine's name happens to mean there, which often is 127.0.0.1.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
from ray.train.torch import TorchConfig

from road_ray.distributed.ray_private import TorchBackend, propagate_environment_variable

_GLOO = "GLOO_SOCKET_IFNAME"
_ADDRESS_OF_INTERFACE = 0x8915  # SIOCGIFADDR, linux/sockios.h


@dataclass
class ByNodeAddress(TorchConfig):  # type: ignore[misc]  # Ray does not type it
    """Ray Train's process group, over the interface of the node's address."""

    timeout_s: int = 7 * 86400
    """Ray's half an hour ends groups whose leader judges, looks or uploads for longer while the
    others wait for it, and ends them again after each restart. Nothing else rests on it: a worker
    that dies or falls silent is seen by its beats (supervisor.py), one that hangs before the group
    stands by the deadline of its start (start_timeout.py).
    """

    @property
    def backend_cls(self) -> type[TorchBackend]:
        return _Backend


class _Backend(TorchBackend):  # type: ignore[misc]
    def on_start(self, worker_group: Any, backend_config: TorchConfig) -> None:
        worker_group.execute(use_interface_of_node)
        super().on_start(worker_group, backend_config)


def use_interface_of_node() -> None:
    """Gloo, in this process, over the interface of the node's address; a choice of the user
    stays.
    """
    if _GLOO not in os.environ and (name := interface_of(ray.util.get_node_ip_address())):
        os.environ[_GLOO] = name


def interface_of(address: str) -> str | None:
    """The network interface that has this IPv4 address; None where no one has it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for _, name in socket.if_nameindex():
            asked = struct.pack("256s", name.encode()[:15])
            try:
                told = fcntl.ioctl(one.fileno(), _ADDRESS_OF_INTERFACE, asked)
            except OSError:  # it has no address
                continue
            if socket.inet_ntoa(told[20:24]) == address:
                return name
    return None


@contextmanager
def named_cluster() -> Iterator[None]:
    """Inside, processes of Ray Train are told which cluster they belong to. Its cleaner of
    placement groups would otherwise look for the only one on the machine, and fail where there are
    several: then what stopped workers had is never free again.
    """
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
