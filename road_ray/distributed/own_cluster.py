"""A cluster of our own on this machine, for as long as this process lives."""

from __future__ import annotations

import logging
import os

import ray

from road_ray.errors import ClusterError


def start(num_cpus: int | None, *, dashboard: bool) -> None:
    """Start one and join it. Raises ``ClusterError`` when it is not up within Ray's 30 s."""
    try:
        ray.init(
            address="local",
            num_cpus=num_cpus,
            include_dashboard=dashboard,
            log_to_driver=True,
            logging_level=logging.ERROR,
        )
    except Exception as error:
        if type(error) is not Exception:  # Ray has no class of its own for a start that failed
            raise
        raise ClusterError(
            f"Ray could not be started on this machine: {error}\n"
            f"  seen: {os.getloadavg()[0]:.0f} processes at work on {os.cpu_count()} cores\n"
            "  fix: run the same command again when there is less to do, or give the address of a "
            "cluster that is up (`ray start --head`, then --address auto)\n"
            "  kept: what was there before"
        ) from error
