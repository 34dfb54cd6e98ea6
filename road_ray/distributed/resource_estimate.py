"""Checks of a plan: does a run fit into memory, on the disk and on the machines."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from road_ray.errors import ClusterError, ConfigError, ResourceError

_MARGIN = 1.2  # of disk and memory, beyond what was counted


def check_room(
    workers: int, gpus_per_worker: float, teachers: int, gpus_per_teacher: float
) -> None:
    """Raise ``ClusterError`` with the requested and the available resources if workers and teachers
    do not fit, on the connected cluster or on this machine.
    """
    import ray

    available = available_resources()
    cpus, gpus = available.get("CPU", 0.0), available.get("GPU", 0.0)
    need_gpus = max(workers, 1) * gpus_per_worker + teachers * gpus_per_teacher
    students = f"{workers} workers" if workers else "this process"
    beside = f" beside {teachers} teachers" if teachers else ""
    alone = not ray.is_initialized()
    no_gpu = "this machine has no GPU: " if need_gpus and not gpus and alone else ""
    if workers > cpus or need_gpus > gpus + 1e-9:
        raise ClusterError(
            f"no room for {students}{beside}\n"
            f"  {'resource':<12}{'asked':>14}{'available':>12}\n"
            f"  {'CPU':<12}{workers:>14g}{cpus:>12g}\n"
            f"  {'GPU':<12}{need_gpus:>14g}{gpus:>12g}\n"
            f"  fix: {no_gpu}fewer --workers, less for each, or another cluster (--address)\n"
            "  kept: nothing was started"
        )


def available_resources() -> Mapping[str, float]:
    """Return the resources of the connected cluster, or of this machine."""
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
