"""Checks of ``road check`` on a cluster: authentication, version and free resources."""

from __future__ import annotations

import json
import os
import stat
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException

from road_ray.distributed.cluster_token import accepts_anonymous, lets_anybody_join, token_path
from road_ray.errors import RoadError


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
    is_open = accepts_anonymous(url)
    if is_open is None:
        fix = "start it, or open the way: `ray dashboard FILE`, `kubectl port-forward`"
        return [Finding("cluster", f"{url}: nothing answers", False, fix)]
    return [_authentication(url, is_open), *([] if is_open else [_version(url)])]


def _authentication(address: str, is_open: bool | None) -> Finding:
    fix = "stop it and start it with RAY_AUTH_MODE=token: everybody who reaches it can run code"
    if is_open is None:
        return Finding("authentication", f"{address} could not be asked", False, "try again")
    answer = "answers anybody" if is_open else "asks for a token"
    return Finding("authentication", f"{address} {answer}", not is_open, fix)


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
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        fix = f"put the token of this very cluster into {token_path()}"
        return Finding("cluster", f"does not take our token: {error}", False, fix)
    local = version("ray")
    fix = f"install ray=={remote} here, or the image with {local} there"
    return Finding("cluster", f"Ray {remote} there, {local} here", remote == local, fix)


def _joined(address: str) -> list[Finding]:
    from road_ray.distributed.connection import connected, prepare_address

    prepare_address(address)  # before Ray is imported
    import ray

    from road_ray.distributed.room import free_resources

    try:
        with connected(address):
            head = ray.get_runtime_context().gcs_address
            rows = [Finding("cluster", f"free: {free_resources()}", True)]
            return [*rows, _authentication(head, lets_anybody_join(head))]
    except RoadError as error:
        first, *details = str(error).splitlines()
        fixes = [line.strip().removeprefix("fix: ") for line in details if "fix:" in line]
        return [Finding("cluster", first, False, fixes[0] if fixes else "")]
