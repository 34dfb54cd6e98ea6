"""A group of workers that may be smaller counts only machines that answer and stay. Ray Train
itself goes by a view of the cluster that is up to 20 s old, and Ray takes half a minute to miss a
machine; workers asked of one that is gone or told to go cost the whole time-out of a start.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray
from ray.exceptions import RayError
from ray.train.torch import TorchTrainer

from road_ray.distributed.ray_private import ElasticScalingPolicy, draining_nodes

_log = logging.getLogger(__name__)
_ASK_SECONDS = 5.0
_CONNECT_SECONDS = 2.0  # for a machine to answer; one that is only busy does so from its kernel


class ElasticTrainer(TorchTrainer):  # type: ignore[misc]  # Ray does not type it
    """Ray's, with the count below where a range of workers is asked."""

    def _initialize_and_run_controller(self, *, scaling_policy: Any, **others: Any) -> Any:
        if self.scaling_config.elasticity_enabled:
            scaling_policy = LiveNodeScalingPolicy(self.scaling_config)
        return super()._initialize_and_run_controller(scaling_policy=scaling_policy, **others)


class LiveNodeScalingPolicy(ElasticScalingPolicy):  # type: ignore[misc]
    """Decides in Ray Train's controller how many workers there shall be."""

    def _get_reserved_resources(self) -> dict[str, dict[str, float]] | None:
        """What each machine has for this run, by its id, as of now; None when nobody knows."""
        ask = self._autoscaling_coordinator.get_reserved_resources.remote
        try:
            reserved = ray.get(ask(self._requester_id, recompute=True), timeout=_ASK_SECONDS)
        except RayError as error:
            _log.warning("what the cluster has is not known now, so nothing is resized: %s", error)
            return None
        going = draining_nodes()
        stay = reachable_nodes(node for node in ray.nodes() if node["NodeID"] not in going)
        return {node: has for node, has in reserved.items() if node in stay}


def reachable_nodes(nodes: Iterable[Mapping[str, Any]]) -> set[str]:
    """Ids of those of ``ray.nodes()`` that are alive and whose raylet takes a connection."""
    alive = [node for node in nodes if node["Alive"]]
    with ThreadPoolExecutor(max(1, min(64, len(alive)))) as threads:
        answers = list(threads.map(_answers, alive))
    return {node["NodeID"] for node, answer in zip(alive, answers, strict=True) if answer}


def _answers(node: Mapping[str, Any]) -> bool:
    address = (node["NodeManagerAddress"], node["NodeManagerPort"])
    try:
        socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
    except OSError:
        return False
    return True
