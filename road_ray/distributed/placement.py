"""Whether a cluster has room for what is asked, told at once: Ray itself waits for ever."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import ray

from road_ray.errors import ClusterError


def check_placement(what: str, count: int, asked: Mapping[str, float], *, remedy: str = "") -> None:
    """Raises ``ClusterError`` with a table of asked and available unless ``count`` actors fit.

    Each asks for all of ``asked`` and needs it on one node. What others occupy counts as room.
    """
    asked = {name: amount for name, amount in asked.items() if amount > 0}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    places = sum(fitting(node, asked, count) for node in nodes)
    if places >= count:
        return
    total = ray.cluster_resources()
    rows = (
        f"  {name:<12}{f'{count} x {amount:g}':>14}{total.get(name, 0.0):>12g}"
        for name, amount in asked.items()
    )
    raise ClusterError(
        f"{count} {what} find no place in the cluster; {places} would, on {len(nodes)} nodes\n"
        f"  {'resource':<12}{'asked':>14}{'available':>12}\n"
        + "\n".join(rows)
        + f"\n  fix: ask for less for each, or add nodes{remedy}\n  kept: nothing was started"
    )


def wait_for_room(
    what: str, count: int, asked: Mapping[str, float], *, timeout_seconds: float = 30.0
) -> None:
    """Returns once that much is free, all nodes together. Raises ``ClusterError`` when others keep
    it for ``timeout_seconds``: Ray itself would wait for ever.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        free = ray.available_resources()
        lacking = {n: a for n, a in asked.items() if free.get(n, 0.0) + 1e-6 < count * a}
        if not lacking:
            return
        if time.monotonic() > deadline:
            names = ", ".join(f"{count} x {amount:g} {name}" for name, amount in lacking.items())
            raise ClusterError(
                f"{count} {what} wait for {names}, and others hold it: free {free_resources()}\n"
                "  fix: stop what else runs there, ask for fewer, or give teachers less "
                "(distillation.cpus_per_teacher)\n  kept: nothing was started"
            )
        time.sleep(0.2)


def core_share(total: float, members: int, beside: int = 0) -> float:
    """Cores of each of ``members`` actors: one, or so little that together they take at most half
    of ``total`` and ``beside`` workers find one each.
    """
    room = max(0.0, min(total / 2, total - beside))
    return min(1.0, math.floor(100 * room / members) / 100)


def free_resources() -> str:
    """What nobody occupies now, for a message."""
    free, total = ray.available_resources(), ray.cluster_resources()
    names = [name for name in ("CPU", "GPU") if name in total]
    return ", ".join(f"{name} {free.get(name, 0.0):g} of {total[name]:g}" for name in names)


def fitting(node: Mapping[str, float], asked: Mapping[str, float], most: int) -> int:
    """How many actors that each ask for ``asked`` fit one node; ``most`` if they ask nothing."""
    # The margin is for shares such as 0.1, of which ten must fit into one.
    fits = (int(node.get(name, 0.0) / amount + 1e-9) for name, amount in asked.items())
    return min(fits, default=most)
