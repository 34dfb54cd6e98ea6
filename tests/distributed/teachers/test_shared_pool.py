"""Shared pools: one pool for all users, which outlives its first user and no crashed ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from road_ray.distributed.autoscaling import SCALE_UP_VARIABLE
from road_ray.errors import ClusterError
from tests.distributed.small import NLI, batches, gone, within

pytestmark = pytest.mark.ray

SECONDS = 60  # 15 on a machine that has time
DRIVER = """
import sys, time, ray
from road_ray.distributed.teachers.pool import specify_pool
from road_ray.distributed.teachers.shared_pool import shared_ensemble
from tests.distributed.small import NLI
ray.init(address=sys.argv[1], log_to_driver=False)
with shared_ensemble(specify_pool(sys.argv[2:], NLI, num_cpus=0.25)) as ensemble:
    print("pids", *ensemble.health(), flush=True)
    time.sleep(600)
"""

TWO_NODES = """
import ray
from ray.cluster_utils import Cluster
from road_ray.distributed.teachers.pool import PoolSpecification
from road_ray.distributed.teachers.shared_pool import _owner
from tests.cluster import make_address_directory, short_directory
from tests.distributed.small import NLI

small = {"include_dashboard": False, "object_store_memory": 80 * 2**20}
with short_directory() as place:
    head = {"num_cpus": 0, "temp_dir": place, **small}
    make_address_directory()
    cluster = Cluster(initialize_head=True, connect=True, head_node_args=head)
    cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    cluster.wait_for_nodes()
    pool = PoolSpecification(directories=("a",), task=NLI)
    owners = [_owner(pool, f"owner-{number}") for number in range(4)]
    node = lambda self: ray.get_runtime_context().get_node_id()
    nodes = ray.get([owner.__ray_call__.remote(node) for owner in owners], timeout=60)
    print("owners on the head", nodes.count(cluster.head_node.node_id))
    ray.shutdown()
    cluster.shutdown()
"""


@pytest.fixture(scope="module")
def directories(directories):
    return directories[:2]


@pytest.fixture
def driver(cluster, directories):
    """``driver()``: another driver of the same cluster that uses the pool; itself and the pids."""
    made = []

    def start():
        address = cluster.get_runtime_context().gcs_address
        command = [sys.executable, "-c", DRIVER, address, *map(str, directories)]
        root = Path(__file__).parents[3]
        environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
        }  # as Ray's own local clusters have it
        process = subprocess.Popen(
            command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True
        )
        made.append(process)
        for line in process.stdout:
            if line.startswith("pids"):
                return process, [int(pid) for pid in line.split()[1:]]
        raise AssertionError("the driver ended without a pool")

    yield start
    for process in made:
        process.kill()
        process.wait(30)


def specification(directories, **options):
    from road_ray.distributed.teachers.pool import specify_pool

    return specify_pool(directories, NLI, num_cpus=0.25, **options)


def test_two_users_share_one_pool_which_ends_with_the_last(cluster, directories):
    from road_ray.distributed.teachers.shared_pool import shared_ensemble

    (single,) = batches(1)
    with shared_ensemble(specification(directories)) as ensemble:
        pids = ensemble.health()
        expected = ensemble.gather(ensemble.submit(single))
        with shared_ensemble(specification(directories)) as another:
            assert another.health() == pids
            assert torch.equal(another.gather(another.submit(single)), expected)
        assert ensemble.health() == pids
    assert within(SECONDS, lambda: all(map(gone, pids)))


@pytest.mark.long  # 20 s, most of it until the lease of the killed driver has expired
def test_the_pool_outlives_the_driver_that_started_it_and_ends_with_its_last_user(
    cluster, directories, driver
):
    from road_ray.distributed.teachers.shared_pool import LEASE_SECONDS, shared_ensemble

    first, pids = driver()
    (single,) = batches(1)
    with shared_ensemble(specification(directories, timeout_seconds=60.0)) as ensemble:
        assert ensemble.health() == pids
        expected = ensemble.gather(ensemble.submit(single))
        with shared_ensemble(specification(directories)) as another:
            assert another.health() == pids
        first.send_signal(signal.SIGKILL)
        first.wait(30)
        assert not within(LEASE_SECONDS + 3, lambda: any(map(gone, pids)))
        assert torch.equal(ensemble.gather(ensemble.submit(single)), expected)
        assert ensemble.health() == pids
    assert within(SECONDS, lambda: all(map(gone, pids)))


@pytest.mark.chaos
def test_after_the_death_of_its_only_user_the_pool_ends(driver):
    only, pids = driver()
    only.send_signal(signal.SIGKILL)
    only.wait(30)
    assert within(SECONDS, lambda: all(map(gone, pids)))


def test_a_shared_pool_without_a_place_is_refused_like_any_other(cluster, directories):
    from road_ray.distributed.teachers.shared_pool import shared_ensemble

    needed = specification(directories, resources={"moon": 1})
    with pytest.raises(ClusterError, match=r"(?s)asked.*available.*moon"), shared_ensemble(needed):
        raise AssertionError("unreachable")


def test_a_trial_starts_the_pool_from_its_placement_group(cluster, directories):
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    def trial(needed):
        from road_ray.distributed.teachers.shared_pool import shared_ensemble

        with shared_ensemble(needed) as ensemble:
            return len(ensemble.health())

    group = placement_group([{"CPU": 0.1}])
    # As Tune schedules its trials.
    inside = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
    try:
        task = ray.remote(num_cpus=0.1, scheduling_strategy=inside)(trial)
        health = ray.get(task.remote(specification(directories)), timeout=60)
    finally:
        remove_placement_group(group)
    assert health == len(directories)


def test_a_user_waits_for_the_machines_that_the_owner_waits_for(cluster, directories, monkeypatch):
    from road_ray.distributed.teachers import shared_pool

    monkeypatch.setenv(SCALE_UP_VARIABLE, "3")
    monkeypatch.setattr(shared_pool, "_FIRST_SECONDS", 2.0)  # of this process, not of the owner's
    needed = specification(directories, resources={"moon": 1}, start_timeout_seconds=1.0)
    with (
        pytest.raises(ClusterError, match=r"(?s)asked.*available.*moon"),
        shared_pool.shared_ensemble(needed),
    ):
        raise AssertionError("unreachable")


@pytest.mark.timeout(120)
@pytest.mark.long  # 23 s, a cluster of two machines
def test_the_owner_of_a_pool_is_on_the_head():
    """Also on a head that has no cores for others."""
    done = subprocess.run(
        [sys.executable, "-c", TWO_NODES],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert "owners on the head 4" in done.stdout


def test_who_comes_after_the_last_has_gone_is_too_late():
    from road_ray.distributed.teachers.shared_pool import Leases

    leases = Leases(first_seconds=60.0)
    assert not leases.expired()
    assert leases.renew("one", 60.0)
    assert leases.renew("two", -1.0), "a lease that has lapsed before anybody looked"
    assert not leases.expired()
    assert leases.renew("one", -1.0)
    assert leases.expired()
    assert not leases.renew("three", 60.0)
    assert leases.expired()


def test_the_first_is_waited_for_only_so_long():
    from road_ray.distributed.teachers.shared_pool import Leases

    assert Leases(first_seconds=-1.0).expired()
