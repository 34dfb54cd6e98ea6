"""What a model multiplies in."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

from road_ray.models.performance.device_and_precision import autocast_dtype


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


def test_no_library_that_a_training_imports_switches_tf32_on():
    """``training.precision=fp32`` promises full precision on a GPU too."""
    import_module("road_ray.training.loop")
    import_module("road_ray.distributed.teachers.actor")
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cuda.matmul.allow_tf32
