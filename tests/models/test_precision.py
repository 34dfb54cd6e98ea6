"""Device and precision."""

from importlib import import_module

import pytest
import torch

from road_ray.models.precision import autocast_dtype, default_device


@pytest.mark.parametrize(
    ("capabilities", "width", "expected"),
    [
        ({"avx512_bf16": True}, 256, torch.bfloat16),
        ({"amx_bf16": True}, 768, torch.bfloat16),
        ({"avx512_bf16": True}, 64, None),
        ({"avx512_bf16": False, "avx2": True}, 768, None),
    ],
)
def test_auto_is_bf16_on_a_cpu_that_gains_by_it(monkeypatch, capabilities, width, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    cpu = torch.device("cpu")
    assert autocast_dtype("auto", cpu, width) is expected
    assert autocast_dtype("fp32", cpu, width) is None
    assert autocast_dtype("bf16", cpu, width) is torch.bfloat16


def test_a_gpu_that_emulates_bf16_gains_nothing_by_it_and_tf32_goes_off(monkeypatch):
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation
    )
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    assert autocast_dtype("auto", torch.device("cuda"), 768) is None
    assert autocast_dtype("bf16", torch.device("cuda"), 768) is torch.bfloat16
    assert not torch.backends.cudnn.allow_tf32


@pytest.mark.ray
def test_a_process_of_ray_without_a_gpu_uses_the_cpu(cluster, monkeypatch):
    """Ray leaves the GPUs of a machine visible to it."""

    def device_with_gpus(given):
        import ray

        torch.cuda.is_available = lambda: True
        if given:
            ray.get_gpu_ids = lambda: given
        return str(default_device())

    ask = cluster.remote(num_cpus=0.1, max_calls=1)(device_with_gpus)
    assert cluster.get([ask.remote([]), ask.remote([0])], timeout=120) == ["cpu", "cuda"]
    monkeypatch.delenv("ROAD_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert default_device().type == "cuda"  # the driver has no share of Ray's


def test_no_library_that_a_training_imports_switches_tf32_on():
    """``training.precision=fp32`` promises full precision on a GPU too."""
    import_module("road_ray.training.loop")
    import_module("road_ray.distributed.teachers")
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cuda.matmul.allow_tf32
