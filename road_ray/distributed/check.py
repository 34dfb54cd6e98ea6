"""Checks of ``road check`` on a cluster: who is let in, its version and room, its clocks, its
object store.
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

from road_ray.distributed.auth import accepts_anonymous, token_path
from road_ray.errors import RoadError

_TASK_SECONDS = 60.0
_MOST_SKEW_SECONDS = 5.0  # records of several machines are ordered by their clocks
_ROUND_TRIP_BYTES = 8 << 20


@dataclass(frozen=True)
class Finding:
    """One thing looked at; ``mend`` says what to do when it is not good."""

    what: str
    found: str
    good: bool
    mend: str = ""


def token() -> Finding:
    """Return the finding about the token: its place, and whether others can read it."""
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
        f"chmod 600 {path}; whoever has read it can run code on the cluster: make a new one",
    )


def cluster(address: str) -> list[Finding]:
    """Return the findings on a dashboard (``http://...``) or a cluster to join (``host:port``)."""
    return _dashboard(address) if "://" in address else _joined(address)


def _dashboard(url: str) -> list[Finding]:
    answer = accepts_anonymous(url)
    if answer is None:
        mend = "start it, or open the way: `ray dashboard FILE`, `kubectl port-forward`"
        return [Finding("cluster", f"{url}: nothing answers", False, mend)]
    return [_authentication(url), *([] if answer else [_version(url)])]


def _authentication(url: str) -> Finding:
    found = "answers anybody" if accepts_anonymous(url) else "asks for a token"
    mend = "stop it and start it with RAY_AUTH_MODE=token: everybody who reaches it can run code"
    return Finding("authentication", f"{url} {found}", found.startswith("asks"), mend)


def _version(url: str) -> Finding:
    from importlib.metadata import version

    try:
        secret = os.environ.get("RAY_AUTH_TOKEN") or token_path().read_text(encoding="utf-8")
    except OSError:
        mend = f"put the cluster's token into {token_path()}, mode 0600"
        return Finding("cluster", "we have no token to show", False, mend)
    asked = urllib.request.Request(
        f"{url.rstrip('/')}/api/version", headers={"Authorization": f"Bearer {secret.strip()}"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            theirs = str(json.loads(answer.read())["ray_version"])
    except (urllib.error.URLError, TimeoutError, ValueError, KeyError) as error:
        mend = f"put the token of this very cluster into {token_path()}"
        return Finding("cluster", f"does not take our token: {error}", False, mend)
    ours = version("ray")
    mend = f"install ray=={theirs} here, or the image with {ours} there"
    return Finding("cluster", f"Ray {theirs} there, {ours} here", theirs == ours, mend)


def _joined(address: str) -> list[Finding]:
    from road_ray.distributed.connection import connected
    from road_ray.distributed.placement import free_resources

    try:
        with connected(address):
            rows = [Finding("cluster", f"free: {free_resources()}", True)]
            rows += [Finding("authentication", "asks for a token", True)]
            return [*rows, _object_store(), _clocks()]
    except RoadError as error:
        first, *more = str(error).splitlines()
        mends = [line.strip().removeprefix("fix: ") for line in more if "fix:" in line]
        return [Finding("cluster", first, False, mends[0] if mends else "")]


def _object_store() -> Finding:
    """A round trip of some megabytes through it."""
    import numpy as np
    import ray

    sent = np.arange(_ROUND_TRIP_BYTES, dtype=np.uint8)
    began = time.perf_counter()
    try:
        same = bool((ray.get(ray.put(sent), timeout=_TASK_SECONDS) == sent).all())
    except Exception as error:
        mend = "give /dev/shm room (docker: --shm-size=8g)"
        return Finding("object store", str(error).splitlines()[0], False, mend)
    seconds = time.perf_counter() - began
    return Finding("object store", f"8 MiB there and back in {seconds:.3f} s", same)


def _clocks() -> Finding:
    """Return the finding about the clocks: how far those of the machines are from ours."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    skews: dict[str, float] = {}
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        clock: Any = ray.remote(num_cpus=0, scheduling_strategy=there)(time.time)
        try:
            ray.get(clock.remote(), timeout=_TASK_SECONDS)  # the process is started by this one
            began = time.time()
            told = ray.get(clock.remote(), timeout=_TASK_SECONDS)
        except Exception as error:
            return Finding("clock", f"{node['NodeName']} does not answer: {error}", False)
        skews[node["NodeName"]] = told - (began + time.time()) / 2
    worst = max(skews, key=lambda name: abs(skews[name]))
    found = f"at most {abs(skews[worst]):.2f} s apart, {worst}"
    mend = "switch on time synchronisation (chrony, systemd-timesyncd) there"
    return Finding("clock", found, abs(skews[worst]) <= _MOST_SKEW_SECONDS, mend)
