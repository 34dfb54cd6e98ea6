"""Machines that go with a notice, go without one, and come: several nodes on this machine."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from torch.testing import assert_close

import road_ray as rr
from road_ray.distributed.train import worker_group as group
from road_ray.distributed.train.preemption import _REPORT
from tests.chaos.runs import NOISE, InThread, paced, rows_of, sizes_of, trained, weights
from tests.cluster import make_address_directory, short_directory

pytestmark = [pytest.mark.ray, pytest.mark.chaos, pytest.mark.timeout(2400)]
STORE = {"object_store_memory": 80 * 2**20}
NOTICE_SECONDS = 12


@pytest.fixture(scope="module")
def cluster():
    """A head that only hosts the driver, and one machine for a worker."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = "15"  # as the product sets it
    with short_directory() as place:
        head = {"num_cpus": 0, "include_dashboard": False, "temp_dir": place, **STORE}
        make_address_directory()
        made = Cluster(initialize_head=True, connect=True, head_node_args=head)
        made.add_node(num_cpus=1, **STORE)
        yield made
        ray.shutdown()
        made.shutdown()


@pytest.fixture(scope="module")
def settings(pretraining):
    paces = {"training.steps": 250, "training.save_every_steps": 10, "training.log_every_steps": 1}
    return pretraining | paces


@pytest.fixture(scope="module")
def calm(settings, tmp_path_factory):
    """The same training in this process, unhurt."""
    place = tmp_path_factory.mktemp("runs") / "calm"
    return weights(rr.pretrain(overrides=settings | {"run_dir": str(place)}).directory)


def ended_as(calm, run: Path) -> None:
    ours = weights(run)
    for name, tensor in calm.items():
        assert_close(ours[name], tensor, **NOISE)
    assert [row["step"] for row in rows_of(run)] == list(range(1, 251))


def test_a_drained_node_costs_seconds_and_counts_as_no_failure(
    cluster, settings, calm, tmp_path, monkeypatch, record_property
):
    """No failure is allowed, so only what Ray knows to be a preemption may pass."""
    monkeypatch.setattr(group, "_MAX_FAILURES", 0)
    node, run = cluster.add_node(num_cpus=1, **STORE), tmp_path / "run"
    training = InThread(run, lambda: trained(settings, run, paced, min_workers=1))
    training.until(lambda: training.watched.step >= 8)
    ray = str(Path(sys.executable).with_name("ray"))
    where = ["--address", cluster.address, "--node-id", node.node_id]
    subprocess.run([ray, *_REPORT[1:], str(NOTICE_SECONDS), *where], check=True, timeout=120)
    drained_at = time.monotonic()
    training.until(lambda: any(odd_checkpoints(run)) or len(sizes_of(run)) > 1)
    training.until(lambda: time.monotonic() > drained_at + NOTICE_SECONDS)
    cluster.remove_node(node, allow_graceful=False)
    training.to_the_end()
    assert sizes_of(run) == [2, 1]
    watched = training.watched
    record_property("node drained: steps done again", f"{watched.again} of 0.2 s")
    record_property("node drained: longest gap between steps", f"{watched.gap:.1f} s")
    assert watched.again <= 40, "more than the eight seconds since the last saving"
    ended_as(calm, run)


def odd_checkpoints(run: Path) -> list[int]:
    """Steps of checkpoints that only a notice can have asked for."""
    steps = (int(path.name.removeprefix("step-")) for path in run.glob("checkpoints/step-*"))
    return [step for step in steps if step % 10]


def test_a_lost_node_is_done_without_and_a_new_one_taken(
    cluster, settings, calm, tmp_path, monkeypatch, record_property
):
    monkeypatch.setattr(group, "_GROWS_AFTER_SECONDS", 5.0)
    node, run = cluster.add_node(num_cpus=1, **STORE), tmp_path / "run"
    training = InThread(run, lambda: trained(settings, run, paced, min_workers=1))
    # Ray starts with the workers that it sees room for, and the node has only just come.
    training.until(lambda: sizes_of(run)[-1:] == [2] and training.watched.step >= 15)
    starts = len(sizes_of(run))
    cluster.remove_node(node, allow_graceful=False)
    training.until(lambda: len(sizes_of(run)) == starts + 1)
    lost = training.watched.step
    training.until(lambda: training.watched.step > lost + 10)
    gap = training.watched.gap
    record_property("node lost: longest gap between steps", f"{gap:.1f} s")
    added = cluster.add_node(num_cpus=1, **STORE)
    joined = training.until(lambda: len(sizes_of(run)) == starts + 2)
    record_property("node joined: used after", f"{joined:.1f} s")
    training.to_the_end()
    assert sizes_of(run)[starts - 1 :] == [2, 1, 2]
    ended_as(calm, run)
    cluster.remove_node(added)
