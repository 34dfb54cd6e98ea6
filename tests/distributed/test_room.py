"""Room is counted, waited for, and asked for from a cluster that adds machines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from road_ray.distributed import room as plan
from road_ray.distributed.room import (
    SCALE_UP_VARIABLE,
    fitting,
    room,
    scale_up_seconds,
)
from road_ray.errors import ClusterError, ConfigError, ResourceError
from tests.cluster import processes_with, short_directory

ADDRESS = "127.0.0.1:6379"  # of a scaling_cluster


def test_seconds_are_read_from_the_environment_and_other_values_refused(monkeypatch):
    for text, seconds in (("", 0.0), ("0", 0.0), ("90", 90.0), ("1e3", 1e3)):
        monkeypatch.setenv(SCALE_UP_VARIABLE, text)
        assert scale_up_seconds() == seconds
    for text in ("20 min", "-1", "nan", "inf"):
        monkeypatch.setenv(SCALE_UP_VARIABLE, text)
        with pytest.raises(ConfigError, match="no number of seconds"):
            scale_up_seconds()


@pytest.mark.ray
def test_a_cluster_that_adds_nothing_is_waited_for_in_vain(cluster, monkeypatch, caplog):
    monkeypatch.setenv(SCALE_UP_VARIABLE, "1")
    began = time.monotonic()
    with (
        caplog.at_level("INFO", logger="road_ray"),
        pytest.raises(ClusterError, match="room for 0 of 2 workers"),
    ):
        room("workers", 2, {"CPU": 1.0, "moon": 1.0})
    assert 1 <= time.monotonic() - began < 10
    assert "waiting up to 1 s for room, or machines that come" in caplog.text


def autoscaler_config():
    """Of Ray's own autoscaler, whose provider starts machines as processes of this one and expects
    the head at port 6379.
    """
    lists = ("initialization", "setup", "head_setup", "worker_setup")
    provider = {"type": "fake_multinode", "disable_node_updaters": True}
    provider |= {"disable_launch_config_check": True, "worker_liveness_check": False}
    moon = {"resources": {"CPU": 2, "moon": 1}, "min_workers": 0, "max_workers": 4}
    return {
        "cluster_name": "fake",
        "max_workers": 4,
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": 5,
        "provider": provider,
        "auth": {},
        "docker": {},
        "head_node_type": "ray.head.default",
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 1}, "node_config": {}, "max_workers": 0},
            "moon": moon | {"node_config": {}},
        },
        "file_mounts": {},
        "cluster_synced_files": [],
        "file_mounts_sync_continuously": False,
        "rsync_exclude": [],
        "rsync_filter": [],
        **{f"{name}_commands": [] for name in lists},
        "head_start_ray_commands": [],
        "worker_start_ray_commands": [],
    }


_DRIVER = """
import sys, ray
from road_ray.distributed.room import room
ray.init(address=sys.argv[1], log_to_driver=False)
assert "moon" not in ray.cluster_resources()
room("workers", 2, {"CPU": 1.0, "moon": 1.0})
print("moons", ray.cluster_resources()["moon"])
"""


@contextmanager
def scaling_cluster(autoscaler: dict[str, Any]) -> Iterator[dict[str, str]]:
    """A head of one core, whose autoscaler starts machines as processes; gives the environment of
    its drivers. ``ADDRESS`` is its address.
    """
    with short_directory() as place:
        config = Path(place, "fake.yaml")
        config.write_text(json.dumps(autoscaler))
        unset = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        environment = unset | {
            **{"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"},
            **{SCALE_UP_VARIABLE: "60", "RAY_USAGE_STATS_ENABLED": "0"},
            "RAY_AUTH_MODE": "disabled",
            "ROAD_TEST_PLACE": place,
        }
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--port=6379"]
        start += [f"--temp-dir={place}/r", "--num-cpus=1", "--include-dashboard=false"]
        start += [f"--autoscaling-config={config}", "--object-store-memory=100000000"]
        try:
            subprocess.run(start, env=environment, check=True, capture_output=True, timeout=120)
            yield environment
        finally:
            for pid in processes_with(f"ROAD_TEST_PLACE={place}"):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.timeout(300)
def test_an_autoscaler_adds_the_machines_that_a_run_waits_for():
    with scaling_cluster(autoscaler_config()) as environment:
        done = subprocess.run(
            [sys.executable, "-c", _DRIVER, ADDRESS],
            env=environment,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=200,
        )
    assert done.returncode == 0, done.stderr
    assert "moons 2" in done.stdout


NODE = {"CPU": 4.0, "GPU": 1.0, "memory": 1e9}


@pytest.mark.parametrize(
    ("requested", "places"),
    [
        ({"CPU": 1.0}, 4),
        ({"CPU": 3.0}, 1),
        ({"CPU": 0.4}, 10),
        ({"CPU": 5.0}, 0),
        ({"CPU": 1.0, "GPU": 0.5}, 2),
        ({"CPU": 1.0, "moon": 1.0}, 0),
        ({"CPU": 0.1}, 40),  # ten tenths fit into one
        ({"GPU": 0.4}, 2),  # a fraction is of one GPU
        ({"GPU": 2.0}, 0),
        ({}, 99),
    ],
)
def test_the_scarcest_resource_decides(requested, places):
    assert fitting(NODE, requested, most=99) == places


def test_what_does_not_fit_is_told_with_asked_and_available(monkeypatch, tmp_path):
    monkeypatch.setattr(plan, "available_resources", lambda: {"CPU": 4.0, "GPU": 2.0})
    plan.check_room(2, 0.5, 3, 0.3)
    with pytest.raises(ClusterError, match=r"CPU +64 +4"):
        plan.check_room(64, 0.0, 0, 0.0)
    with pytest.raises(ClusterError, match=r"GPU +3 +2"):
        plan.check_room(2, 1.0, 1, 1.0)
    with pytest.raises(ClusterError, match=r"(?s)^no room for this process\n.*GPU +3 +2"):
        plan.check_room(0, 3.0, 0, 0.0)
    with pytest.raises(ConfigError, match="batch_size = 3"):
        plan.check_batch(3, 4)
    assert plan.check_disk(tmp_path / "not" / "there", 1) > 0
    with pytest.raises(ResourceError, match=r"needs 1\d{9}\.00 GiB"):
        plan.check_disk(tmp_path, 1 << 60)
    with pytest.raises(ResourceError, match="a worker needs"):
        plan.check_memory(1 << 60, False, 1)


def test_a_machine_without_a_gpu_is_said_to_have_none(monkeypatch):
    monkeypatch.setattr(plan, "available_resources", lambda: {"CPU": 4.0, "GPU": 0.0})
    with pytest.raises(ClusterError, match="fix: this machine has no GPU: "):
        plan.check_room(1, 1.0, 0, 0.0)
