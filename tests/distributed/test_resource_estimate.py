"""Arithmetic by hand, and what does not fit."""

from __future__ import annotations

import pytest

from road_ray.distributed import resource_estimate as plan
from road_ray.errors import ClusterError, ConfigError, ResourceError


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
