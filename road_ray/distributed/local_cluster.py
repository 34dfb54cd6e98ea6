"""A Ray cluster on this machine that lives as long as this process."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import ray

from road_ray.errors import ClusterError

_log = logging.getLogger(__name__)
_ATTEMPTS = 3  # to start; a machine full of other work makes the first one miss Ray's limit
# Ray would show its metrics to other machines, without a token. Those of its dashboard and its
# autoscaler have no switch; their servers do not start without a port.
_NO_METRICS = {"DASHBOARD_METRIC_PORT": "-1", "AUTOSCALER_METRIC_PORT": "-1"}


def start(num_cpus: int | None, *, dashboard: bool) -> None:
    """Start a cluster and join it; try again if it is not up within Ray's 30 s, which cannot be
    changed. Raises ``ClusterError`` if the last attempt fails too.
    """
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
                raise _failure(error) from error
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


def _failure(error: Exception) -> ClusterError:
    return ClusterError(
        f"Ray could not be started on this machine in {_ATTEMPTS} attempts: {error}\n"
        f"  seen: {_load()}\n"
        "  fix: run the same command again when the machine is less busy, or give the address "
        "of a running cluster (`ray start --head`, then --address auto)\n"
        "  kept: what was there before"
    )


def _load() -> str:
    load = f"{os.getloadavg()[0]:.0f} processes" if hasattr(os, "getloadavg") else "other processes"
    return f"{load} at work on {os.cpu_count()} cores"
