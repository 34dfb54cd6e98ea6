"""Environment of a run (versions, devices, source revision), and the checks of ``road check``."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import astuple
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from road_ray.errors import RoadError

_PACKAGES = ("road-ray", "torch", "transformers", "tokenizers", "ray", "numpy", "pyarrow")
_CHECKED = (*_PACKAGES[1:], "datasets", "optuna", "pydantic", "wandb")
_OPTIONAL = {"wandb"}
_LEAST_FREE_GIB = 2.0
_LEAST_SHARED_GIB = 0.25


def environment() -> dict[str, object]:
    """Return versions and devices of the process that starts the run."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "devices": devices(),
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
        return subprocess.check_output(
            command, stderr=subprocess.PIPE, text=True, timeout=5
        ).strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def devices() -> list[str]:
    """Return the names of the GPUs that torch can use."""
    import torch

    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def findings(address: str | None, root: str | None) -> tuple[list[dict[str, str]], bool]:
    """Return rows of ``what``, ``found``, ``state`` and ``mend``, and True if all are fine."""
    from road_ray.distributed import cluster_check

    python = sys.version_info >= (3, 11), "use Python 3.11 or newer"
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    room = f"free space, or work where {_LEAST_FREE_GIB:g} GiB are free: checkpoints need it"
    checks = [
        ("python", platform.python_version(), *python),
        *(
            (name, found, name in _OPTIONAL or found != "not installed", f"pip install {name}")
            for name, found in zip(_CHECKED, map(version_of, _CHECKED), strict=True)
        ),
        ("devices", ", ".join(devices()) or _processor(), True, ""),
        ("disk", f"{free:.1f} GiB free here", free >= _LEAST_FREE_GIB, room),
        _shared_memory(),
        _data(root),
        astuple(cluster_check.token()),
        *map(astuple, cluster_check.cluster(address) if address is not None else ()),
    ]
    rows = [
        {
            "what": name,
            "found": found,
            "state": "ok" if ok else "PROBLEM",
            "mend": "" if ok else fix,
        }
        for name, found, ok, fix in checks
    ]
    return rows, all(row["state"] == "ok" for row in rows)


def _processor() -> str:
    import torch

    if torch.backends.mps.is_available():
        return "Apple GPU; used with ROAD_DEVICE=mps (untested)"
    return f"no GPU; {os.cpu_count()} CPU cores, {torch.get_num_threads()} threads"


def _shared_memory() -> tuple[str, str, bool, str]:
    """Check ``/dev/shm``, Ray's object store; containers give it 64 MiB by default."""
    if not Path("/dev/shm").is_dir():
        return "shared memory", "no /dev/shm; Ray uses the disk", True, ""
    size = shutil.disk_usage("/dev/shm").total / 2**30
    fix = "docker: --shm-size=8g; Kubernetes: an emptyDir of medium Memory at /dev/shm"
    return "shared memory", f"{size:.1f} GiB", size >= _LEAST_SHARED_GIB, fix


def _data(root: str | None) -> tuple[str, str, bool, str]:
    from road_ray.data.load_split import resolve_root

    try:
        place = resolve_root(root)
    except RoadError as error:
        first, *details = str(error).splitlines()
        return "data", first, False, " ".join(line.strip() for line in details)
    if place is None:
        return "data", "hub (no data.root, no $ROAD_DATA)", True, ""
    folders = ", ".join(sorted(path.name for path in place.iterdir() if path.is_dir()))
    return "data", f"{place}: {folders}", True, ""
