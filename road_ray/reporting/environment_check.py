"""Checks of ``road check``: versions, devices, disk, data, cluster."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from road_ray.errors import RoadError

_WANTED = (
    "torch",
    "transformers",
    "tokenizers",
    "ray",
    "datasets",
    "optuna",
    "pyarrow",
    "pydantic",
    "wandb",
)
_OPTIONAL = {"wandb"}
_LEAST_FREE_GIB = 2.0
_LEAST_SHARED_GIB = 0.25


def findings(address: str | None, root: str | None) -> tuple[list[dict[str, str]], bool]:
    """Return rows of ``what``, ``found``, ``state`` and ``mend``, and True if all are fine."""
    from road_ray.distributed import cluster_check

    upgrade = "use Python 3.11 or newer"
    rows = [_row("python", sys.version.split()[0], sys.version_info >= (3, 11), upgrade)]
    rows += [_package(name) for name in _WANTED]
    rows += [_device(), _disk(), _shared_memory(), _data(root)]
    checks = [
        cluster_check.token(),
        *(cluster_check.cluster(address) if address is not None else ()),
    ]
    rows += [_row(check.name, check.value, check.ok, check.fix) for check in checks]
    return rows, all(row["state"] == "ok" for row in rows)


def _row(name: str, value: str, ok: bool, fix: str = "") -> dict[str, str]:
    state = "ok" if ok else "PROBLEM"
    return {"what": name, "found": value, "state": state, "mend": "" if ok else fix}


def _package(name: str) -> dict[str, str]:
    try:
        return _row(name, version(name), True)
    except PackageNotFoundError:
        return _row(name, "not installed", name in _OPTIONAL, f"pip install {name}")


def devices() -> list[str]:
    """Return the names of the GPUs that torch can use."""
    import torch

    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def _device() -> dict[str, str]:
    import torch

    if names := devices():
        return _row("devices", ", ".join(names), True)
    if torch.backends.mps.is_available():
        return _row("devices", "Apple GPU; used with ROAD_DEVICE=mps (untested)", True)
    return _row(
        "devices", f"no GPU; {os.cpu_count()} CPU cores, {torch.get_num_threads()} threads", True
    )


def _disk() -> dict[str, str]:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    fix = f"free space, or work where {_LEAST_FREE_GIB:g} GiB are free: checkpoints need it"
    return _row("disk", f"{free:.1f} GiB free here", free >= _LEAST_FREE_GIB, fix)


def _shared_memory() -> dict[str, str]:
    """Return the row of ``/dev/shm``, Ray's object store; containers give it 64 MiB by default."""
    place = Path("/dev/shm")
    if not place.is_dir():
        return _row("shared memory", "no /dev/shm; Ray uses the disk", True)
    size = shutil.disk_usage(place).total / 2**30
    fix = "docker: --shm-size=8g; Kubernetes: an emptyDir of medium Memory at /dev/shm"
    return _row("shared memory", f"{size:.1f} GiB", size >= _LEAST_SHARED_GIB, fix)


def _data(root: str | None) -> dict[str, str]:
    from road_ray.data.load_split import resolve_root

    try:
        place = resolve_root(root)
    except RoadError as error:
        first, *details = str(error).splitlines()
        return _row("data", first, False, " ".join(line.strip() for line in details))
    if place is None:
        return _row("data", "hub (no data.root, no $ROAD_DATA)", True)
    return _row(
        "data", f"{place}: {', '.join(sorted(p.name for p in place.iterdir() if p.is_dir()))}", True
    )
