"""Environment of a run (versions, devices, source revision), and the checks of ``road check``: of
this machine, and of a cluster's authentication, version and free resources.
"""

import os
import platform
import shutil
import stat
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from road_ray.distributed.connection import accepts_anonymous, connected, refuse_open, token_path
from road_ray.errors import RoadError

_PACKAGES = ("road-ray", "torch", "transformers", "tokenizers", "ray", "numpy", "pyarrow")
_CHECKED = (*_PACKAGES[1:], "datasets", "optuna", "pydantic", "wandb")
_LEAST_FREE_GIB = 2.0


Finding = dict[str, str]
"""Result of one check: ``what``, ``found``, ``state`` and ``mend``."""


def environment() -> dict[str, Any]:
    """Return versions and devices of the process that starts the run."""
    import torch

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "packages": {name: version_of(name) for name in _PACKAGES},
        "revision": revision(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:2]],  # no arguments: they may hold secrets
    }


def version_of(package: str) -> str:
    """Return the version of an installed package, or "not installed"."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@cache
def revision() -> str:
    """Return the git revision of the source tree of this code, or "unknown"."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        found = subprocess.check_output(command, stderr=subprocess.PIPE, text=True, timeout=5)
        return found.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _finding(what: str, found: str, good: bool = True, mend: str = "") -> Finding:
    state = "ok" if good else "PROBLEM"
    return {"what": what, "found": found, "state": state, "mend": "" if good else mend}


def _problem(what: str, error: RoadError) -> Finding:
    first, *details = str(error).splitlines()
    fixes = [line.strip().removeprefix("fix: ") for line in details if "fix:" in line]
    return _finding(what, first, False, " ".join(fixes))


def findings(address: str | None, root: str | None) -> list[Finding]:
    """Return the results of all checks."""
    import torch

    free = shutil.disk_usage(Path.cwd()).free / 2**30
    space = f"free space, or work where {_LEAST_FREE_GIB:g} GiB are free: checkpoints need it"
    processor = f"no GPU; {os.cpu_count()} CPU cores, {torch.get_num_threads()} threads"
    if torch.backends.mps.is_available():
        processor = "Apple GPU; used with ROAD_DEVICE=mps (untested)"
    return [
        _finding("python", platform.python_version()),
        *(_finding(name, version_of(name)) for name in _CHECKED),
        _finding("devices", ", ".join(environment()["devices"]) or processor),
        _finding("disk", f"{free:.1f} GiB free here", free >= _LEAST_FREE_GIB, space),
        _data(root),
        check_token(),
        *([check_cluster(address)] if address is not None else ()),
    ]


def _data(root: str | None) -> Finding:
    from road_ray.data.load_split import resolve_root

    try:
        place = resolve_root(root)
    except RoadError as error:
        return _problem("data", error)
    if place is None:
        return _finding("data", "hub (no data.root, no $ROAD_DATA)")
    folders = ", ".join(sorted(path.name for path in place.iterdir() if path.is_dir()))
    return _finding("data", f"{place}: {folders}")


def check_token() -> Finding:
    """Check that there is a token and that only its owner can read it."""
    path = token_path()
    if os.environ.get("RAY_AUTH_TOKEN"):
        return _finding("token", "in RAY_AUTH_TOKEN")
    if not path.is_file():
        return _finding("token", f"none at {path}; one is made for clusters on this machine")
    mode = stat.S_IMODE(path.stat().st_mode)
    fix = f"chmod 600 {path}; anyone who has read it can run code on the cluster: make a new one"
    return _finding("token", f"{path}, mode {mode:o}", not mode & 0o077, fix)


def check_cluster(address: str) -> Finding:
    """Check a dashboard (``http://...``) or a cluster to join (``host:port``): it is up, asks for a
    token, takes ours, and has our version of Ray.
    """
    try:
        if "://" in address:
            refuse_open(address, accepts_anonymous)
            return _version(address)
        with connected(address):
            from road_ray.distributed.room import free_resources

            return _finding("cluster", f"free: {free_resources()}")
    except RoadError as error:
        return _problem("cluster", error)


def _version(url: str) -> Finding:
    import httpx

    local, path = version("ray"), token_path()
    try:
        secret = os.environ.get("RAY_AUTH_TOKEN") or path.read_text(encoding="utf-8")
        key = {"Authorization": f"Bearer {secret.strip()}"}
        place = f"{url.rstrip('/')}/api/version"
        answer = httpx.get(place, headers=key, timeout=10, trust_env=False)  # without a proxy
        remote = str(answer.raise_for_status().json()["ray_version"])
    except (OSError, httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        fix = f"put the token of this very cluster into {path}, mode 0600"
        return _finding("cluster", f"does not take our token: {error}", False, fix)
    fix = f"install ray=={remote} here, or the image with {local} there"
    value = f"Ray {remote} there, {local} here"
    return _finding("cluster", value, remote == local, fix)
