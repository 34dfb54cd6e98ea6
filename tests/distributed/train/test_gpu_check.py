"""GPUs that a group cannot use are told before it starts."""

from __future__ import annotations

import re
import time

import pytest
import torch

from road_ray.distributed.train import gpu_check
from road_ray.distributed.train.gpu_check import _problem, check_gpus
from road_ray.errors import ClusterError
from road_ray.models.performance import device_and_precision
from road_ray.models.performance.device_and_precision import default_device, gpu_problem

OLD = "The NVIDIA driver on your system is too old (found version 11040)."


def too_old():
    raise RuntimeError(f"{OLD} Please update your GPU driver\nmore")


@pytest.fixture
def old_driver(monkeypatch, tmp_path):
    """A machine with a GPU whose driver is older than torch wants."""
    (tmp_path / "version").write_text("NVRM version: 470")
    monkeypatch.setattr(device_and_precision, "_DRIVER", tmp_path / "version")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "init", too_old)


def test_a_driver_that_is_too_old_is_told_in_torchs_words(old_driver):
    assert gpu_problem().startswith(OLD)
    assert "\n" not in gpu_problem()


def test_one_process_uses_the_cpu_and_says_why(old_driver, monkeypatch, caplog):
    monkeypatch.delenv("ROAD_DEVICE", raising=False)
    device_and_precision._warn_once.cache_clear()
    for _ in range(2):
        assert default_device().type == "cpu"
    assert caplog.text.count(OLD) == 1
    assert "ROAD_DEVICE=cpu" in caplog.text
    caplog.clear()
    monkeypatch.setenv("ROAD_DEVICE", "cpu")
    default_device()
    assert not caplog.text


@pytest.fixture
def machines_with_gpus(cluster, monkeypatch):
    """The cluster says that its machine has a GPU; the processes that look at it are real."""
    nodes = [node | {"Resources": node["Resources"] | {"GPU": 1.0}} for node in cluster.nodes()]
    monkeypatch.setattr(cluster, "nodes", lambda: nodes)
    return nodes


def test_a_torch_that_cannot_use_the_gpus_is_told_within_a_minute(machines_with_gpus):
    """The wheel of the tests is built without CUDA, which is a torch without a driver."""
    began = time.monotonic()
    with pytest.raises(ClusterError, match=r"GPUs of 1 of 1 machines:(?s:.)*CUDA(?s:.)*fix"):
        check_gpus()
    assert time.monotonic() - began < 60


def test_the_driver_of_a_machine_is_asked_in_a_process_there(machines_with_gpus, monkeypatch):
    def looked():
        torch.cuda.init = too_old
        return _problem()

    monkeypatch.setattr(gpu_check, "_problem", looked)
    with pytest.raises(ClusterError, match=rf"\n    [\d.]+: {re.escape(OLD)} Please update"):
        check_gpus()
