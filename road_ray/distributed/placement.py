"""Checks that a cluster has room for actors before they are requested; Ray would wait forever."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import ray

from road_ray.distributed.autoscaling import SCALE_UP_VARIABLE, wait_for_machines
from road_ray.errors import ClusterError


def check_placement(
    actors: str, count: int, resources: Mapping[str, float], *, remedy: str = ""
) -> None:
    """Raise ``ClusterError`` with a table of resources unless ``count`` ``actors`` fit, if need be
    on machines that the cluster adds (``ROAD_SCALE_UP_SECONDS``).

    ``resources`` are those of one actor, all on one node. Resources in use count as free.
    """
    resources = {name: amount for name, amount in resources.items() if amount > 0}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    places = sum(fitting(node, resources, count) for node in nodes)
    if places >= count or wait_for_machines(actors, count, resources):
        return
    total = ray.cluster_resources()
    rows = (
        f"  {name:<12}{f'{count} x {amount:g}':>14}{total.get(name, 0.0):>12g}"
        for name, amount in resources.items()
    )
    no_gpu = resources.get("GPU") and not total.get("GPU")
    where = "this machine has" if len(nodes) == 1 else "the machines have"
    raise ClusterError(
        f"the cluster has room for {places} of {count} {actors}, on {len(nodes)} nodes"
        f"{f': {where} no GPU' if no_gpu else ''}\n"
        f"  {'resource':<12}{'asked':>14}{'available':>12}\n"
        + "\n".join(rows)
        + f"\n  fix: lower the resources of each, or add nodes{remedy}; set {SCALE_UP_VARIABLE} if "
        "the cluster adds nodes by itself\n  kept: nothing was started"
    )


def wait_for_room(
    count: int,
    resources: Mapping[str, float],
    *,
    actors: str = "workers",
    timeout_seconds: float = 30.0,
) -> None:
    """Wait until ``resources`` are free for each of ``count`` ``actors``. Raises ``ClusterError``
    if they are still in use after ``timeout_seconds`` and the cluster adds no machines.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        free = ray.available_resources()
        lacking = {n: a for n, a in resources.items() if free.get(n, 0.0) + 1e-6 < count * a}
        if not lacking:
            return
        if time.monotonic() > deadline:
            if wait_for_machines(actors, count, resources):
                return
            names = ", ".join(f"{count} x {amount:g} {name}" for name, amount in lacking.items())
            raise ClusterError(
                f"{count} {actors} wait for {names}, and others hold it: free {free_resources()}\n"
                "  fix: stop what else runs there, ask for fewer, or give teachers less "
                "(distillation.cpus_per_teacher)\n  kept: nothing was started"
            )
        time.sleep(0.2)


def core_share(total: float, members: int, beside: int = 0) -> float:
    """Return the CPUs of each of ``members`` actors: one, or the share with which all take at most
    half of ``total`` and leave one CPU for each of ``beside`` workers.
    """
    room = max(0.0, min(total / 2, total - beside))
    return min(1.0, math.floor(100 * room / members) / 100)


def free_resources() -> str:
    """Return the free CPUs and GPUs as text for a message."""
    free, total = ray.available_resources(), ray.cluster_resources()
    names = [name for name in ("CPU", "GPU") if name in total]
    return ", ".join(f"{name} {free.get(name, 0.0):g} of {total[name]:g}" for name in names)


def fitting(node: Mapping[str, float], resources: Mapping[str, float], most: int) -> int:
    """Return how many actors with ``resources`` fit one node, ``most`` if they need none."""

    def places(name: str, amount: float) -> int:
        available = node.get(name, 0.0)
        if name == "GPU" and amount < 1:  # an actor's fraction is of one GPU
            return int(available) * _parts(1.0, amount)
        return _parts(available, amount)

    return min((places(name, amount) for name, amount in resources.items()), default=most)


def _parts(total: float, amount: float) -> int:
    # The margin is for shares such as 0.1, of which ten must fit into one.
    return int(total / amount + 1e-9)
