"""Room for actors on a cluster, checked before they are requested, as Ray would wait for ever.

Checks of a plan: does a run fit into memory, on the disk and on the machines.
"""

import logging
import math
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from road_ray.errors import ClusterError, ConfigError, ResourceError

SCALE_UP_VARIABLE = "ROAD_SCALE_UP_SECONDS"
"""Environment variable with the longest wait for new machines, in seconds. Unset or 0: the cluster
adds none, and a run without room is refused at once. The shipped files of clusters that scale set
it."""
_BUSY_SECONDS = 30.0  # that room which others hold is waited for
_SIGNALS_EVERY_SECONDS = 1  # Ray's own wait lets no handler of a signal run, and cuts off fractions
_MESSAGE_EVERY_SECONDS = 60.0
_log = logging.getLogger(__name__)
_MARGIN = 1.2  # of disk and memory, beyond what was counted


def scale_up_seconds() -> float:
    """Return the longest wait for new machines. Raises ``ConfigError`` if the variable is no
    number of seconds.
    """
    text = os.environ.get(SCALE_UP_VARIABLE) or "0"
    with suppress(ValueError):
        if 0 <= (seconds := float(text)) < math.inf:
            return seconds
    raise ConfigError(
        f"{SCALE_UP_VARIABLE}={text}: no number of seconds\n"
        "  allowed: 0 (the cluster adds no machines) or more, such as 1200"
    )


def room(
    actors: str, count: int, resources: Mapping[str, float], *, free: bool = False, remedy: str = ""
) -> None:
    """Wait until the cluster has room for ``count`` ``actors`` with ``resources`` each, all those
    of one actor on one node. Without ``free``, resources in use count as room: who asks waits for
    them himself. Machines that the cluster adds are waited for up to ``scale_up_seconds()``.

    Raises ``ClusterError`` with what was asked and what there is.
    """
    import ray

    resources = {name: amount for name, amount in resources.items() if amount > 0}
    if not resources:
        return
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    places = sum(fitting(node, resources, count) for node in nodes)
    enough, seconds = places >= count, scale_up_seconds()
    if enough and not free:
        return
    seconds = max(seconds, _BUSY_SECONDS) if enough else seconds
    if seconds and _wait(count, resources, seconds):
        return
    problem = f"the cluster has room for {min(places, count)} of {count} {actors}, "
    problem += f"on {len(nodes)} nodes; free: {free_resources()}"
    fix = f"stop what else runs there, lower the resources of each, or add nodes{remedy}; "
    fix += f"set {SCALE_UP_VARIABLE} if the cluster adds nodes by itself"
    asked = {name: f"{count} x {amount:g}" for name, amount in resources.items()}
    raise no_room(problem, asked, ray.cluster_resources(), fix)


def no_room(
    problem: str, asked: Mapping[str, str], available: Mapping[str, float], remedy: str
) -> ClusterError:
    """Return an error with a table of the ``asked`` and the ``available`` resources."""
    rows = "".join(
        f"  {name:<12}{amount:>14}{available.get(name, 0.0):>12g}\n"
        for name, amount in asked.items()
    )
    return ClusterError(
        f"{problem}\n  {'resource':<12}{'asked':>14}{'available':>12}\n{rows}"
        f"  fix: {remedy}\n  kept: nothing was started"
    )


def _wait(count: int, resources: Mapping[str, float], seconds: float) -> bool:
    """Return True as soon as the resources are free, False after ``seconds``.

    A placement group that waits is what Ray's autoscalers count as demand, and it goes with this
    process, so a killed run asks for nothing.
    """
    from ray.util.placement_group import placement_group, remove_placement_group

    group = placement_group([dict(resources)] * count, strategy="PACK")
    began, told = time.monotonic(), -math.inf
    try:
        while not group.wait(_SIGNALS_EVERY_SECONDS):
            if time.monotonic() > told + _MESSAGE_EVERY_SECONDS:
                told = time.monotonic()
                _log.info("waiting up to %.0f s for room, or machines that come", seconds)
            if time.monotonic() > began + seconds:
                return False
        return True
    finally:
        remove_placement_group(group)


def free_resources() -> str:
    """Return the free CPUs and GPUs as text for a message."""
    import ray

    free, total = ray.available_resources(), ray.cluster_resources()
    names = [name for name in ("CPU", "GPU") if name in total]
    return ", ".join(f"{name} {free.get(name, 0.0):g} of {total[name]:g}" for name in names)


def fitting(node: Mapping[str, float], resources: Mapping[str, float], most: int) -> int:
    """Return how many actors with ``resources`` fit one node, ``most`` if they need none."""
    places = []
    for name, amount in resources.items():
        devices, size = 1, node.get(name, 0.0)
        if name == "GPU" and amount < 1:  # an actor's fraction is of one GPU
            devices, size = int(size), 1.0
        # The margin is for shares such as 0.1, of which ten must fit into one.
        places.append(devices * int(size / amount + 1e-9))
    return min(places, default=most)


def check_room(
    workers: int, gpus_per_worker: float, teachers: int, gpus_per_teacher: float
) -> None:
    """Raise ``ClusterError`` with the requested and the available resources if workers and teachers
    do not fit, on the connected cluster or on this machine.
    """
    processes, available = max(workers, 1), available_resources()
    need = {"CPU": workers, "GPU": processes * gpus_per_worker + teachers * gpus_per_teacher}
    if any(amount > available.get(name, 0.0) + 1e-9 for name, amount in need.items()):
        problem = f"no room for {processes} processes beside {teachers} teachers"
        asked = {name: f"{amount:g}" for name, amount in need.items()}
        fix = "fewer --workers, less for each, or another cluster (--address)"
        raise no_room(problem, asked, available, fix)


def available_resources() -> Mapping[str, float]:
    """Return the resources of the connected cluster, or of this machine."""
    import ray

    if ray.is_initialized():
        resources: Mapping[str, float] = ray.cluster_resources()
        return resources
    import torch

    return {"CPU": float(os.cpu_count() or 1), "GPU": float(torch.cuda.device_count())}


def check_batch(batch_size: int, workers: int) -> None:
    """Raise ``ConfigError`` if the batch has fewer rows than there are workers."""
    if batch_size < workers:
        raise ConfigError(
            f"data.batch_size = {batch_size} is less than --workers {workers}\n"
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
    if on_gpu:
        import torch

        known = torch.cuda.is_available()
        memory = int(torch.cuda.get_device_properties(0).total_memory) if known else 0
    else:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
        memory = pages * size // max(workers, 1)
    if memory and need_bytes * _MARGIN > memory:
        raise ResourceError(
            f"a worker needs about {need_bytes / 2**30:.2f} GiB, it has {memory / 2**30:.2f} GiB\n"
            "  fix: a smaller data.batch_size with more training.passes, more workers, or "
            "training.fsdp=true\n"
            "  kept: nothing was started"
        )
    return memory
