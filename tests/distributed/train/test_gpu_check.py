"""GPUs that a group cannot use, or that differ, are told before it starts."""

from __future__ import annotations

import logging
import re
import time

import pytest
import torch

from road_ray.distributed.placement import check_placement
from road_ray.distributed.train import gpu_check
from road_ray.distributed.train.gpu_check import NodeGpus, _models, check_gpus, judge
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


def test_without_a_gpu_the_cpu_is_no_problem(monkeypatch, tmp_path):
    monkeypatch.setattr(device_and_precision, "_DRIVER", tmp_path / "none")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_problem() is None


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


def test_a_group_on_such_machines_is_refused():
    nodes = [NodeGpus("10.0.0.1", ("H100",)), NodeGpus("10.0.0.2", (), OLD)]
    message = r"GPUs of 1 of 2 machines:\n    10\.0\.0\.2: The NVIDIA driver(?s:.)*fix(?s:.)*kept"
    with pytest.raises(ClusterError, match=message):
        judge(nodes)


def test_different_models_in_a_group_are_a_warning(caplog):
    with caplog.at_level(logging.WARNING):
        judge([NodeGpus("a", ("H100", "H100")), NodeGpus("b", ("A100",))])
    assert "different models (a: H100; b: A100)" in caplog.text
    caplog.clear()
    judge([NodeGpus("a", ("H100",)), NodeGpus("b", ("H100",))])
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
        return _models()

    monkeypatch.setattr(gpu_check, "_models", looked)
    with pytest.raises(ClusterError, match=rf"\n    [\d.]+: {re.escape(OLD)} Please update"):
        check_gpus()


def test_models_that_differ_are_told_before_a_group_starts(machines_with_gpus, monkeypatch, caplog):
    monkeypatch.setattr(gpu_check, "_models", lambda: (["NVIDIA H100", "NVIDIA A100"], None))
    began = time.monotonic()
    check_gpus()
    assert "GPUs of different models" in caplog.text
    assert "NVIDIA A100, NVIDIA H100" in caplog.text
    assert time.monotonic() - began < 60


def test_a_machine_that_does_not_answer_is_not_waited_for(machines_with_gpus, monkeypatch, caplog):
    monkeypatch.setattr(gpu_check, "_models", lambda: time.sleep(20))
    monkeypatch.setattr(gpu_check, "_ANSWER_SECONDS", 1.0)
    began = time.monotonic()
    check_gpus()
    assert time.monotonic() - began < 15
    assert "its GPUs were not checked within 1 s" in caplog.text


@pytest.mark.ray
def test_more_gpus_than_there_are_is_refused_at_once(cluster):
    began = time.monotonic()
    with pytest.raises(
        ClusterError, match=r"room for 0 of 2 workers(?s:.)*GPU +2 x 1 +0(?s:.)*fix"
    ):
        check_placement("workers", 2, {"CPU": 1.0, "GPU": 1.0})
    assert time.monotonic() - began < 10
