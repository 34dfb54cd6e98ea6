"""Which interface has an address, and which cluster Ray Train is told of."""

from __future__ import annotations

import os

import pytest
import ray

from road_ray.distributed.train import worker_network
from road_ray.distributed.train.worker_network import (
    interface_of,
    named_cluster,
    use_interface_of_node,
)


def test_loopback_is_found_by_its_address_and_no_address_by_none():
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.255") is None


@pytest.mark.parametrize(
    ("before", "address", "after"),
    [(None, "127.0.0.1", "lo"), ("eth7", "127.0.0.1", "eth7"), (None, "192.0.2.255", None)],
)
def test_gloo_takes_the_nodes_interface_unless_told(monkeypatch, before, address, after):
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    if before:
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", before)
    else:
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", "undone when the test ends")
        del os.environ["GLOO_SOCKET_IFNAME"]
    monkeypatch.setattr(worker_network.ray.util, "get_node_ip_address", lambda: address)
    use_interface_of_node()
    assert os.environ.get("GLOO_SOCKET_IFNAME") == after


def test_workers_may_wait_for_their_leader_for_days():
    """A look, a judgement or an upload of the one that leads takes hours; Ray's own is one half."""
    assert worker_network.ByNodeAddress(backend="gloo").timeout_s >= 86400


@pytest.mark.ray
@pytest.mark.parametrize("before", [None, "10.0.0.1:6379"])
def test_the_cluster_is_named_inside_only_and_where_a_dashboard_can_be_asked(
    cluster, monkeypatch, before
):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if before:
        monkeypatch.setenv("RAY_ADDRESS", before)
    with named_cluster():
        assert os.environ.get("RAY_ADDRESS") == before
    monkeypatch.setattr(worker_network, "has_dashboard", lambda: True)
    with named_cluster():
        assert os.environ["RAY_ADDRESS"] == ray.get_runtime_context().gcs_address
    assert os.environ.get("RAY_ADDRESS") == before
