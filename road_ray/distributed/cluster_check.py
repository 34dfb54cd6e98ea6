"""Checks of ``road check`` on a cluster: authentication, version, free resources, clocks and object
store.
"""

from __future__ import annotations

import json
import os
import stat
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from road_ray.distributed.cluster_token import accepts_anonymous, token_path
from road_ray.errors import RoadError

_TASK_SECONDS = 60.0
_MOST_SKEW_SECONDS = 5.0  # records of several machines are ordered by their clocks
_ROUND_TRIP_BYTES = 8 << 20


@dataclass(frozen=True)
class Finding:
    """Result of one check; ``fix`` says what to do if it is not ``ok``."""

    name: str
    value: str
    ok: bool
    fix: str = ""


def token() -> Finding:
    """Check that there is a token and that only its owner can read it."""
    path = token_path()
    if os.environ.get("RAY_AUTH_TOKEN"):
        return Finding("token", "in RAY_AUTH_TOKEN", True)
    if not path.is_file():
        return Finding("token", f"none at {path}; one is made for clusters on this machine", True)
    mode = stat.S_IMODE(path.stat().st_mode)
    return Finding(
        "token",
        f"{path}, mode {mode:o}",
        not mode & 0o077,
        f"chmod 600 {path}; anyone who has read it can run code on the cluster: make a new one",
    )


def cluster(address: str) -> list[Finding]:
    """Check a dashboard (``http://...``) or a cluster to join (``host:port``)."""
    return _dashboard(address) if "://" in address else _joined(address)


def _dashboard(url: str) -> list[Finding]:
    answer = accepts_anonymous(url)
    if answer is None:
        fix = "start it, or open the way: `ray dashboard FILE`, `kubectl port-forward`"
        return [Finding("cluster", f"{url}: nothing answers", False, fix)]
    return [_authentication(url), *([] if answer else [_version(url)])]


def _authentication(url: str) -> Finding:
    answer = "answers anybody" if accepts_anonymous(url) else "asks for a token"
    fix = "stop it and start it with RAY_AUTH_MODE=token: everybody who reaches it can run code"
    return Finding("authentication", f"{url} {answer}", answer.startswith("asks"), fix)


def _version(url: str) -> Finding:
    from importlib.metadata import version

    try:
        secret = os.environ.get("RAY_AUTH_TOKEN") or token_path().read_text(encoding="utf-8")
    except OSError:
        fix = f"put the cluster's token into {token_path()}, mode 0600"
        return Finding("cluster", "we have no token to show", False, fix)
    request = urllib.request.Request(
        f"{url.rstrip('/')}/api/version", headers={"Authorization": f"Bearer {secret.strip()}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            remote = str(json.loads(answer.read())["ray_version"])
    except (urllib.error.URLError, TimeoutError, ValueError, KeyError) as error:
        fix = f"put the token of this very cluster into {token_path()}"
        return Finding("cluster", f"does not take our token: {error}", False, fix)
    local = version("ray")
    fix = f"install ray=={remote} here, or the image with {local} there"
    return Finding("cluster", f"Ray {remote} there, {local} here", remote == local, fix)


def _joined(address: str) -> list[Finding]:
    from road_ray.distributed.connection import connected
    from road_ray.distributed.placement import free_resources

    try:
        with connected(address):
            rows = [Finding("cluster", f"free: {free_resources()}", True)]
            rows += [Finding("authentication", "asks for a token", True)]
            return [*rows, _object_store(), _clocks()]
    except RoadError as error:
        first, *details = str(error).splitlines()
        fixes = [line.strip().removeprefix("fix: ") for line in details if "fix:" in line]
        return [Finding("cluster", first, False, fixes[0] if fixes else "")]


def _object_store() -> Finding:
    """Check a round trip of some megabytes through the object store."""
    import numpy as np
    import ray

    sent = np.arange(_ROUND_TRIP_BYTES, dtype=np.uint8)
    began = time.perf_counter()
    try:
        same = bool((ray.get(ray.put(sent), timeout=_TASK_SECONDS) == sent).all())
    except Exception as error:
        fix = "give /dev/shm room (docker: --shm-size=8g)"
        return Finding("object store", str(error).splitlines()[0], False, fix)
    seconds = time.perf_counter() - began
    return Finding("object store", f"8 MiB there and back in {seconds:.3f} s", same)


def _clocks() -> Finding:
    """Check how far the clocks of the machines are from ours."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    skews: dict[str, float] = {}
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        clock: Any = ray.remote(num_cpus=0, scheduling_strategy=there)(time.time)
        try:
            ray.get(clock.remote(), timeout=_TASK_SECONDS)  # this call starts the process
            began = time.time()
            remote_time = ray.get(clock.remote(), timeout=_TASK_SECONDS)
        except Exception as error:
            return Finding("clock", f"{node['NodeName']} does not answer: {error}", False)
        skews[node["NodeName"]] = remote_time - (began + time.time()) / 2
    worst = max(skews, key=lambda name: abs(skews[name]))
    apart = f"at most {abs(skews[worst]):.2f} s apart, {worst}"
    fix = "switch on time synchronisation (chrony, systemd-timesyncd) there"
    return Finding("clock", apart, abs(skews[worst]) <= _MOST_SKEW_SECONDS, fix)
