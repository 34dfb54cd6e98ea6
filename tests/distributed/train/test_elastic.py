"""What a group of workers that may be smaller counts; machines that go are in ``tests/chaos``."""

from __future__ import annotations

import socket

import pytest
import ray
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer

from road_ray.distributed.ray_private import DatasetsCallback, PlacementGroupCleanerCallback
from road_ray.distributed.train import elastic
from road_ray.distributed.train.elastic import (
    ElasticTrainer,
    LiveNodeScalingPolicy,
    reachable_nodes,
)

CORE = {"CPU": 1.0}


def machine(name: str, port: int, *, alive: bool = True):
    """As ``ray.nodes()`` has it."""
    address = {"NodeManagerAddress": "127.0.0.1", "NodeManagerPort": port}
    return {"NodeID": name, "Alive": alive, **address}


def test_only_machines_that_answer_are_counted():
    with socket.create_server(("127.0.0.1", 0)) as up, socket.create_server(("", 0)) as gone:
        (_, open_port), (_, closed_port) = up.getsockname(), gone.getsockname()
        gone.close()
        nodes = [machine("up", open_port), machine("gone", closed_port)]
        assert reachable_nodes([*nodes, machine("dead", open_port, alive=False)]) == {"up"}
    assert reachable_nodes([]) == set()


@pytest.mark.parametrize("dashboard", [False, True])
def test_a_group_has_no_actor_for_data_sets_and_a_cleaner_only_where_it_can_ask(
    dashboard, monkeypatch
):
    monkeypatch.setattr(elastic, "has_dashboard", lambda: dashboard)

    def callbacks(trainer):
        return {type(one) for one in trainer._create_default_callbacks()}

    theirs = callbacks(TorchTrainer(print, scaling_config=ScalingConfig(num_workers=2)))
    ours = callbacks(
        ElasticTrainer(print, inherited={}, scaling_config=ScalingConfig(num_workers=2))
    )
    cleaner = set() if dashboard else {PlacementGroupCleanerCallback}
    assert theirs - ours == {DatasetsCallback} | cleaner
    assert ours < theirs


@ray.remote
class Coordinator:
    """Answers as Ray's: the stale view, unless it is asked to look again."""

    def __init__(self, *nodes: str) -> None:
        self._has = dict.fromkeys(nodes, CORE)

    def get_reserved_resources(self, requester: str | None, recompute: bool = False):
        if requester == "unlucky":
            raise ValueError("no")
        return self._has | ({} if recompute else {"gone": CORE})


class Asking(LiveNodeScalingPolicy):
    def __init__(self, coordinator) -> None:
        super().__init__(ScalingConfig(num_workers=(1, 2), resources_per_worker=CORE))
        self._asked = coordinator

    @property
    def _autoscaling_coordinator(self):
        return self._asked


@pytest.mark.ray
def test_as_many_workers_as_machines_that_stay(cluster, monkeypatch):
    here = ray.get_runtime_context().get_node_id()
    coordinator = Coordinator.options(num_cpus=0).remote(here, "not there")
    policy = Asking(coordinator)
    assert policy._get_reserved_resources() == {here: CORE}
    assert policy._count_possible_workers(policy._get_reserved_resources()) == 1
    with monkeypatch.context() as patch:
        patch.setattr(ray._private.state.state, "get_draining_nodes", lambda: {here: 0})
        assert policy._get_reserved_resources() == {}, "told to go"
    policy._requester_id = "unlucky"
    assert policy._get_reserved_resources() is None, "nobody knows, so nothing is resized"
    ray.kill(coordinator)
