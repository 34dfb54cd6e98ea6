"""Room is counted, waited for, and asked for from a cluster that adds machines."""

from __future__ import annotations

import time

import pytest

from road_ray.distributed import room as plan
from road_ray.distributed.room import SCALE_UP_VARIABLE, fitting, room, scale_up_seconds
from road_ray.errors import ClusterError, ConfigError, ResourceError


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
    monkeypatch.setattr(plan, "available_resources", lambda: {"CPU": 4.0, "GPU": 0.0})
    with pytest.raises(ClusterError, match="fix: there is no GPU: "):
        plan.check_room(1, 1.0, 0, 0.0)
    with pytest.raises(ConfigError, match="batch_size = 3"):
        plan.check_batch(3, 4)
    assert plan.check_disk(tmp_path / "not" / "there", 1) > 0
    with pytest.raises(ResourceError, match=r"needs 1\d{9}\.00 GiB"):
        plan.check_disk(tmp_path, 1 << 60)
    with pytest.raises(ResourceError, match="a worker needs"):
        plan.check_memory(1 << 60, False, 1)
