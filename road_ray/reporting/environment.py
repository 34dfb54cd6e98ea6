"""What ``road check`` finds: versions, devices, disk, data, cluster."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

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


def findings(address: str | None, root: str | None) -> tuple[list[dict[str, Any]], bool]:
    """Rows of ``what``, ``found``, ``state`` and whether nothing essential is amiss."""
    rows = [_row("python", sys.version.split()[0], sys.version_info >= (3, 11))]
    for name in _WANTED:
        try:
            rows.append(_row(name, version(name), True))
        except PackageNotFoundError:
            rows.append(_row(name, "not installed", name in _OPTIONAL))
    rows += [_device(), _disk(), _data(root)]
    if address is not None:
        rows.append(_cluster(address))
    return rows, all(row["state"] == "ok" for row in rows)


def _row(what: str, found: str, good: bool) -> dict[str, Any]:
    return {"what": what, "found": found, "state": "ok" if good else "PROBLEM"}


def devices() -> list[str]:
    """Names of the GPUs that torch can use."""
    import torch

    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def _device() -> dict[str, Any]:
    import torch

    if names := devices():
        return _row("devices", ", ".join(names), True)
    return _row(
        "devices", f"no GPU; {os.cpu_count()} CPU cores, {torch.get_num_threads()} threads", True
    )


def _disk() -> dict[str, Any]:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    return _row("disk", f"{free:.1f} GiB free here", free >= _LEAST_FREE_GIB)


def _data(root: str | None) -> dict[str, Any]:
    from road_ray.data.sources import resolve_root

    try:
        place = resolve_root(root)
    except RoadError as error:
        return _row("data", str(error).splitlines()[0], False)
    if place is None:
        return _row("data", "hub (no data.root, no $ROAD_DATA)", True)
    return _row(
        "data", f"{place}: {', '.join(sorted(p.name for p in place.iterdir() if p.is_dir()))}", True
    )


def _cluster(address: str) -> dict[str, Any]:
    from road_ray.distributed.launch import connected
    from road_ray.distributed.placement import free_resources

    try:
        with connected(address):
            return _row("cluster", f"free: {free_resources()}", True)
    except RoadError as error:
        return _row("cluster", str(error).splitlines()[0], False)
