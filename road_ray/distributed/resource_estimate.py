"""Estimates for a plan: time by number of workers, cost, and checks of memory, disk and placement.

Communication is not measured: it is the time of a ring all-reduce under the assumptions below.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from road_ray.config import Config
from road_ray.errors import ClusterError, ConfigError, ResourceError

RING_GIGABYTES_PER_SECOND = 10.0  # sent by one worker: 100 Gbit/s links at 80 %
RING_LATENCY_SECONDS = 20e-6  # of each of the 2 (n - 1) hops
_MARGIN = 1.2  # of disk and memory, beyond what was counted


class Prices(Config):
    """Prices of an hour, which ``road plan --prices`` multiplies with its estimate."""

    currency: str = "USD"
    """Currency of the prices, for display only."""
    gpu_hour: float = Field(0.0, ge=0)
    """Price of one GPU for an hour, in ``currency``. 0: free."""
    cpu_hour: float = Field(0.0, ge=0)
    """Price of one core for an hour, in ``currency``. 0: free."""
    head_hour: float = Field(0.0, ge=0)
    """Price of the head node, which only coordinates, for an hour, in ``currency``. 0: free."""


def communication_seconds(
    gradient_bytes: float,
    workers: int,
    *,
    gigabytes_per_second: float = RING_GIGABYTES_PER_SECOND,
    latency_seconds: float = RING_LATENCY_SECONDS,
) -> float:
    """Return the seconds of a ring all-reduce: ``2 (n-1)/n * bytes / bandwidth + 2 (n-1) *
    latency``.

    Source: Patarasuk and Yuan 2009, bandwidth optimal all-reduce.
    """
    if workers < 2:
        return 0.0
    share = 2 * (workers - 1) / workers
    transfer = share * gradient_bytes / (gigabytes_per_second * 1e9)
    return transfer + 2 * (workers - 1) * latency_seconds


def reduced_bytes(gradient_bytes: float, passes: int, *, fsdp: bool, sparse: bool = False) -> float:
    """Return the bytes that a ring reduces in a step: the gradients once, or in each pass if passes
    may have different heads (``sparse``). With FSDP, each pass gathers the parameters forward and
    backward and scatters the gradients, each half of that.
    """
    if fsdp:
        return 1.5 * passes * gradient_bytes
    return passes * gradient_bytes if sparse else gradient_bytes


def step_seconds(alone: float, gradient_bytes: float, workers: int) -> float:
    """Return the seconds of a step of the same global batch on ``workers`` equal workers, if
    communication does not overlap with computation.
    """
    return alone / max(workers, 1) + communication_seconds(gradient_bytes, workers)


def by_workers(alone: float, gradient_bytes: float, batch_size: int) -> list[dict[str, Any]]:
    """Return batch size, step time and share of communication for 1 to 512 workers, as long as
    each worker has a row.
    """
    rows = []
    for workers in (1, 2, 4, 8, 64, 512):
        if workers > batch_size:
            break
        step = step_seconds(alone, gradient_bytes, workers)
        communication = communication_seconds(gradient_bytes, workers)
        rows.append(
            {
                "workers": workers,
                "batch_per_worker": -(-batch_size // workers),
                "step_seconds": step,
                "communication_share": communication / step,
            }
        )
    return rows


def cost(
    hours: float,
    workers: int,
    gpus_per_worker: float,
    prices: Prices,
    *,
    teacher_gpus: float = 0.0,
) -> dict[str, float]:
    """Return GPU-hours, core-hours and cost of ``hours``. ``teacher_gpus`` is the sum over all
    teachers; ``workers = 0`` is this process.
    """
    students = max(workers, 1)
    gpu_hours = hours * (students * gpus_per_worker + teacher_gpus)
    core_hours = hours * students
    money = gpu_hours * prices.gpu_hour + core_hours * prices.cpu_hour + hours * prices.head_hour
    return {"gpu_hours": gpu_hours, "core_hours": core_hours, "cost": money}


def check_room(workers: int, gpus_per_worker: float, teachers: int, gpus_per_teacher: float) -> str:
    """Return the placement of workers and teachers, on the connected cluster or on this machine.

    Raises ``ClusterError`` with the requested and the available resources if they do not fit.
    """
    available = _available()
    cpus, gpus = available.get("CPU", 0.0), available.get("GPU", 0.0)
    need_gpus = max(workers, 1) * gpus_per_worker + teachers * gpus_per_teacher
    students = f"{workers} workers" if workers else "this process"
    beside = f" beside {teachers} teachers" if teachers else ""
    if workers > cpus or need_gpus > gpus + 1e-9:
        raise ClusterError(
            f"no room for {students}{beside}\n"
            f"  {'resource':<12}{'asked':>14}{'available':>12}\n"
            f"  {'CPU':<12}{workers:>14g}{cpus:>12g}\n"
            f"  {'GPU':<12}{need_gpus:>14g}{gpus:>12g}\n"
            "  fix: fewer --workers, less for each, or another cluster (--address)\n"
            "  kept: nothing was started"
        )
    where = "in this process" if workers == 0 else students
    return f"{where}{beside}; there are {cpus:g} CPU, {gpus:g} GPU"


def _available() -> Mapping[str, float]:
    import ray

    if ray.is_initialized():
        resources: Mapping[str, float] = ray.cluster_resources()
        return resources
    import torch

    return {"CPU": float(os.cpu_count() or 1), "GPU": float(torch.cuda.device_count())}


def check_batch(batch_size: int, workers: int, key: str = "data.batch_size") -> None:
    """Raise ``ConfigError`` for ``key`` if the batch has fewer rows than there are workers."""
    if batch_size < workers:
        raise ConfigError(
            f"{key} = {batch_size} is less than --workers {workers}\n"
            "  fix: fewer workers, or a larger batch\n  kept: nothing was started"
        )


def check_disk(place: Path, need_bytes: int) -> int:
    """Return the free bytes on the disk of ``place``. Raises ``ResourceError`` for too few."""
    existing = next(p for p in (place.resolve(), *place.resolve().parents) if p.exists())
    free = shutil.disk_usage(existing).free
    if free < _MARGIN * need_bytes:
        raise ResourceError(
            f"{place}: needs {need_bytes / 2**30:.2f} GiB, free {free / 2**30:.2f} GiB\n"
            "  fix: free space, keep fewer checkpoints (training.keep_checkpoints), or name "
            "another directory\n"
            "  kept: nothing was started"
        )
    return free


def check_memory(need_bytes: int, on_gpu: bool, workers: int) -> int:
    """Return the bytes of memory of a worker, or 0 if its GPU is not on this machine. Raises
    ``ResourceError`` for too few.
    """
    memory = _memory(on_gpu) // (1 if on_gpu else max(workers, 1))
    if memory and need_bytes * _MARGIN > memory:
        raise ResourceError(
            f"a worker needs about {need_bytes / 2**30:.2f} GiB, it has {memory / 2**30:.2f} GiB\n"
            "  fix: a smaller data.batch_size with more training.passes, more workers, or "
            "training.fsdp=true\n"
            "  kept: nothing was started"
        )
    return memory


def _memory(on_gpu: bool) -> int:
    if on_gpu:
        import torch

        if not torch.cuda.is_available():
            return 0
        return int(torch.cuda.get_device_properties(0).total_memory)
    if not hasattr(os, "sysconf"):  # Windows
        return 0
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
