"""Machines that a cluster adds: waited for as long as it is said, and asked for meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from road_ray.distributed import autoscaling
from road_ray.distributed.autoscaling import (
    SCALE_UP_VARIABLE,
    scale_up_seconds,
    wait_for_machines,
)
from road_ray.distributed.placement import check_placement
from road_ray.errors import ClusterError, ConfigError
from tests.cluster import processes_with, short_directory


@pytest.mark.parametrize(("text", "seconds"), [("", 0.0), ("0", 0.0), ("90", 90.0), ("1e3", 1e3)])
def test_seconds_are_read_from_the_environment(monkeypatch, text, seconds):
    monkeypatch.setenv(SCALE_UP_VARIABLE, text)
    assert scale_up_seconds() == seconds


@pytest.mark.parametrize("text", ["20 min", "-1", "nan", "inf"])
def test_other_values_are_refused(monkeypatch, text):
    monkeypatch.setenv(SCALE_UP_VARIABLE, text)
    with pytest.raises(ConfigError, match="no number of seconds"):
        scale_up_seconds()


@pytest.mark.ray
def test_a_cluster_that_adds_nothing_is_waited_for_in_vain(cluster, monkeypatch, caplog):
    monkeypatch.setenv(SCALE_UP_VARIABLE, "1")
    monkeypatch.setattr(autoscaling, "_MESSAGE_EVERY_SECONDS", 0.3)
    began = time.monotonic()
    with (
        caplog.at_level("INFO", logger="road_ray"),
        pytest.raises(ClusterError, match="room for 0 of 2 workers"),
    ):
        check_placement("workers", 2, {"CPU": 1.0, "moon": 1.0})
    assert 1 <= time.monotonic() - began < 10
    assert "waiting up to 1 s for machines" in caplog.text
    assert "still waiting" in caplog.text


@pytest.mark.ray
def test_machines_that_are_up_are_left_free(cluster, monkeypatch):
    monkeypatch.setenv(SCALE_UP_VARIABLE, "30")
    assert wait_for_machines("workers", 2, {"CPU": 1.0})
    deadline = time.monotonic() + 10
    while cluster.available_resources()["CPU"] < cluster.cluster_resources()["CPU"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)


# A head of Ray's launcher with one core, whose autoscaler starts machines as processes.
_CONFIG = """
cluster_name: fake
max_workers: 4
idle_timeout_minutes: 5
provider: {type: fake_multinode}
auth: {}
head_node_type: head
available_node_types:
  head: {resources: {CPU: 1}, node_config: {}, max_workers: 0}
  worker: {resources: {CPU: 2, moon: 1}, node_config: {}, min_workers: 0, max_workers: 4}
head_start_ray_commands: []
worker_start_ray_commands: []
"""
_DRIVER = """
import sys, ray
from road_ray.distributed.placement import check_placement
ray.init(address=sys.argv[1], log_to_driver=False)
assert "moon" not in ray.cluster_resources()
check_placement("workers", 2, {"CPU": 1.0, "moon": 1.0})
print("moons", ray.cluster_resources()["moon"])
"""


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", ["1", "2"])
def test_an_autoscaler_adds_the_machines_that_a_run_waits_for(version):
    head = "fffffffffffffffffffffffffffffffffffffffffffffffffff00000"  # of Ray's fake provider
    with short_directory() as place:
        config = Path(place, "fake.yaml")
        provider = "{type: fake_multinode}"
        later = f"{{type: fake_multinode, launch_multiple: true, head_node_id: {head}}}"
        config.write_text(_CONFIG.replace(provider, later) if version == "2" else _CONFIG)
        port = 20000 + os.getpid() % 5000
        unset = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        environment = unset | {
            **{"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"},
            **{SCALE_UP_VARIABLE: "120", "RAY_USAGE_STATS_ENABLED": "0"},
            "RAY_AUTH_MODE": "disabled",
        }
        if version == "2":
            environment |= {"RAY_enable_autoscaler_v2": "1", "RAY_CLOUD_INSTANCE_ID": head}
            environment |= {"RAY_OVERRIDE_NODE_ID_FOR_TESTING": head}
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", f"--port={port}"]
        start += [f"--temp-dir={place}/r", "--num-cpus=1", "--include-dashboard=false"]
        start += [f"--autoscaling-config={config}", "--object-store-memory=100000000"]
        try:
            subprocess.run(start, env=environment, check=True, capture_output=True, timeout=120)
            done = subprocess.run(
                [sys.executable, "-c", _DRIVER, f"127.0.0.1:{port}"],
                env=environment,
                cwd=Path(__file__).parents[2],
                capture_output=True,
                text=True,
                timeout=200,
            )
            assert done.returncode == 0, done.stderr
            assert "moons 2" in done.stdout
        finally:
            for pid in processes_with(f"{SCALE_UP_VARIABLE}=120"):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
