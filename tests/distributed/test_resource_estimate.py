"""Arithmetic by hand, and what does not fit."""

from __future__ import annotations

import pytest

from road_ray.distributed import resource_estimate as plan
from road_ray.distributed.resource_estimate import Prices
from road_ray.errors import ClusterError, ConfigError, ResourceError


def test_a_ring_moves_twice_the_bytes_less_one_share():
    assert plan.communication_seconds(1e9, 1) == 0.0
    seconds = plan.communication_seconds(1e9, 2, gigabytes_per_second=1.0, latency_seconds=0.0)
    assert seconds == pytest.approx(1.0)
    seconds = plan.communication_seconds(1e9, 4, gigabytes_per_second=1.0, latency_seconds=0.1)
    assert seconds == pytest.approx(1.5 + 0.6)


def test_parts_are_gathered_twice_and_scattered_once_a_pass():
    assert plan.reduced_bytes(8.0, 3, fsdp=False) == 8.0
    assert plan.reduced_bytes(8.0, 3, fsdp=False, sparse=True) == 3 * 8.0  # in every pass
    # An all-reduce is a scatter and a gather; here are three of these, in each of three passes.
    assert plan.reduced_bytes(8.0, 3, fsdp=True) == 3 * 3 * 8.0 / 2


def test_workers_share_the_batch_and_pay_for_talking():
    rows = plan.by_workers(8.0, 0.0, batch_size=5)
    assert [(row["workers"], row["batch_per_worker"]) for row in rows] == [(1, 5), (2, 3), (4, 2)]
    assert rows[2]["step_seconds"] == pytest.approx(2.0, rel=1e-3)
    busy = plan.by_workers(8.0, 100e9, batch_size=512)
    assert busy[0]["communication_share"] == 0.0
    shares = [row["communication_share"] for row in busy]
    assert shares == sorted(shares)
    assert shares[-1] > 0.99


def test_money_is_hours_times_prices():
    prices = Prices(gpu_hour=2.0, cpu_hour=0.1, head_hour=0.5)
    price = plan.cost(10.0, 4, 1.0, prices)
    assert price == {"gpu_hours": 40.0, "core_hours": 40.0, "cost": pytest.approx(80 + 4 + 5)}
    assert plan.cost(10.0, 0, 0.0, Prices())["core_hours"] == 10.0
    assert plan.cost(10.0, 0, 1.0, Prices())["gpu_hours"] == 10.0
    with_teacher = plan.cost(10.0, 2, 1.0, Prices(gpu_hour=2.0), teacher_gpus=1.5)
    assert (with_teacher["gpu_hours"], with_teacher["cost"]) == (35.0, 70.0)


def test_what_does_not_fit_is_told_with_asked_and_available(monkeypatch, tmp_path):
    monkeypatch.setattr(plan, "_available", lambda: {"CPU": 4.0, "GPU": 2.0})
    assert "2 workers beside 3 teachers" in plan.check_room(2, 0.5, 3, 0.3)
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
