"""Authentication token of a Ray cluster: required by default and readable by its owner only.

Anyone who reaches an open cluster can run code on all of its machines (CVE-2023-48022), so a
cluster that answers without a token is an error unless the user accepts it explicitly.
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from road_ray.errors import ClusterError

_log = logging.getLogger(__name__)
ACCEPT = "ROAD_ACCEPT_OPEN_CLUSTER"
_HEAD_ANSWERS = "/ray.rpc.NodeInfoGcsService/CheckAlive"  # takes an empty request


def token_path() -> Path:
    """Return the path where Ray looks for the token."""
    configured = os.environ.get("RAY_AUTH_TOKEN_PATH")
    try:
        return Path(configured).expanduser() if configured else Path.home() / ".ray" / "auth_token"
    except RuntimeError as error:
        raise ClusterError(
            f"no home directory for Ray's token: {error}\n"
            "  fix: RAY_AUTH_TOKEN_PATH=a file, or HOME=a directory of this user"
        ) from error


def require_token(*, create: bool = False) -> None:
    """Make this process and its children send a token and require one.

    A token file that others can read is made private (Ray writes it with mode 0644); ``create``
    writes a new one if there is none. RAY_AUTH_MODE, if set, is not changed.
    """
    # Ray reads the mode when it is imported: set later, its server would require a token that its
    # client does not send. A Ray that is already imported uses the token if there is one.
    if "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    mode = os.environ.get("RAY_AUTH_MODE", "token")
    if mode != "token" or os.environ.get("RAY_AUTH_TOKEN"):
        return
    path = token_path()
    if path.is_file():
        permissions = stat.S_IMODE(path.stat().st_mode)
        if permissions & 0o077:
            path.chmod(permissions & 0o700)
            _log.warning("%s could be read by others (mode %o); closed", path, permissions)
    elif create:
        token = secrets.token_hex(32)
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # another process has made one meanwhile
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            os.write(file, token.encode())  # few bytes: all or none
            os.close(file)


def accepts_anonymous(dashboard: str, timeout_seconds: float = 10.0) -> bool | None:
    """Return True if the jobs interface of a dashboard answers without a token, False if it asks
    for one, None if it cannot be told: nothing answers in time, or not in HTTP.
    """
    import httpx

    url = dashboard if "://" in dashboard else f"http://{dashboard}"
    try:
        place = f"{url.rstrip('/')}/api/jobs/"
        with httpx.stream("GET", place, timeout=timeout_seconds, trust_env=False) as answer:
            return answer.status_code not in (401, 403)
    except (httpx.HTTPError, httpx.InvalidURL):  # of the connection, the answer, the address
        return None


def lets_anybody_join(gcs_address: str, timeout_seconds: float = 10.0) -> bool | None:
    """Return True if the head of a cluster (``host:port``) answers Ray's processes without a token,
    False if it asks for one, None if it cannot be told. Needs no dashboard.
    """
    import grpc  # a dependency of ray[default]

    with grpc.insecure_channel(gcs_address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            channel.unary_unary(_HEAD_ANSWERS)(b"", timeout=timeout_seconds)
            return True
        except grpc.RpcError as error:
            return False if error.code() is grpc.StatusCode.UNAUTHENTICATED else None


def refuse_open(address: str, ask: Callable[[str], bool | None], *, accepted: bool = False) -> None:
    """Raise ``ClusterError`` for a cluster that takes requests without authentication and for one
    that could not be asked, unless that is accepted. ``ask`` is ``accepts_anonymous`` for a
    dashboard, ``lets_anybody_join`` for a head.
    """
    if accepted or os.environ.get(ACCEPT) == "1":
        return
    is_open = ask(address)
    if is_open is False:
        return
    problem = "answers without a token: it lets everybody in"
    fix = "start it with RAY_AUTH_MODE=token (docs/guides/cluster.md)"
    if is_open is None:
        problem = "whether it asks for a token could not be checked: it does not answer as Ray does"
        fix = "check that it is reachable (`ray dashboard FILE`, `kubectl port-forward`)"
    raise ClusterError(
        f"{address}: {problem}\n"
        "  allowed: clusters that ask for a token; in an open one everybody who reaches it runs "
        f"code\n  fix: {fix}, or say that an open one is meant: --i-know-this-is-open, "
        f"{ACCEPT}=1\n  kept: nothing was sent"
    )
