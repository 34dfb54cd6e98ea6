"""Elastic worker groups that count only reachable nodes that are not draining.

Ray Train's own view of the cluster is up to 20 s old, and Ray takes half a minute to notice a lost
node; workers requested on a node that is gone or draining cost the whole start timeout.
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
_ANSWER_SECONDS = 5.0
_CONNECT_SECONDS = 2.0  # for a node to answer; a busy one does so from its kernel


class ElasticTrainer(TorchTrainer):  # type: ignore[misc]  # Ray does not type it
    """``TorchTrainer`` with ``LiveNodeScalingPolicy`` for a range of workers."""

    def _initialize_and_run_controller(self, *, scaling_policy: object, **options: object) -> Any:
        if self.scaling_config.elasticity_enabled:
            scaling_policy = LiveNodeScalingPolicy(self.scaling_config)
        return super()._initialize_and_run_controller(scaling_policy=scaling_policy, **options)


class LiveNodeScalingPolicy(ElasticScalingPolicy):  # type: ignore[misc]
    """Chooses the number of workers, in Ray Train's controller."""

    def _get_reserved_resources(self) -> dict[str, dict[str, float]] | None:
        """Return the resources reserved for this run by node id, as of now; None if unknown."""
        ask = self._autoscaling_coordinator.get_reserved_resources.remote
        try:
            reserved = ray.get(ask(self._requester_id, recompute=True), timeout=_ANSWER_SECONDS)
        except RayError as error:
            _log.warning("resources of the cluster unknown, the group keeps its size: %s", error)
            return None
        draining = draining_nodes()
        nodes = reachable_nodes(node for node in ray.nodes() if node["NodeID"] not in draining)
        return {node: resources for node, resources in reserved.items() if node in nodes}


def reachable_nodes(nodes: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the ``ray.nodes()`` that are alive and whose raylet takes a connection."""
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
