"""A step that a device runs without waiting for the host: no shape and no branch reads a value.

Two proofs without a device. On the meta device, which is not the CPU and has no values, a step
takes the code of a GPU, and reading anything back is an error. ``FakeTensorMode`` finds shapes that
depend on values.
"""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from road_ray.objectives.base import Objective
from road_ray.training.config import OptimizerConfig
from road_ray.training.optimization.gradient_accumulation import backward
from road_ray.training.optimization.optimizer import build_optimizer, clip
from road_ray.training.performance.prefetch import placed
from road_ray.training.worker import Worker
from tests.objectives import every

pytestmark = pytest.mark.slow  # a third of a second for every objective
META = torch.device("meta")
PACKED = "features head"
"""PyTorch packs the rows of an LSTM by lengths on the host."""
CASES = [name for name in every.CASES if name != PACKED]
WAITS = "attention maps"
"""Only ``eager`` attention returns maps, and transformers looks whether its mask masks anything."""


class _Copies(TorchDispatchMode):
    """Lists the operators that copy between the host and the device."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        tensors = [x for x in (*args, *(kwargs or {}).values(), result) if torch.is_tensor(x)]
        # A number on the host may be an operand of a kernel on the device: it is an argument then.
        if len({x.device.type for x in tensors if x.dim()}) > 1:
            self.calls.append(str(func))
        return result


@pytest.fixture
def _no_autocast(monkeypatch):
    """The meta device has no autocast, which reads no values anyway."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())


def on_meta(name, directory) -> tuple[Objective, list, Worker]:
    objective, batch = every.case_of(name, directory, layers=1)
    worker = Worker(device=META)
    moved = placed(batch, objective, META)
    return objective.to(META), [moved], worker


@pytest.mark.usefixtures("_no_autocast")
@pytest.mark.parametrize("name", [name for name in CASES if name != WAITS])
def test_a_step_reads_nothing_back_from_the_device(name, tmp_path):
    objective, passes, worker = on_meta(name, tmp_path)
    optimizer = build_optimizer(objective, OptimizerConfig())
    optimizer.set_rate(1.0)
    optimizer.defaults["fused"] = None  # the meta device has no fused kernels
    for group in optimizer.param_groups:
        group["fused"] = None
    with torch.no_grad():
        objective(passes[0])  # a teacher of hidden states moves to the device at its first batch
    with _Copies() as copies:
        result = backward(objective, objective, passes, worker, seed=1, step=0, autocast=None)
        norm = clip(objective, 1.0)
        optimizer.step()
    assert copies.calls == []
    assert norm.device == result.loss.device == META
    assert any(p.grad is not None for p in objective.parameters())


@pytest.mark.parametrize("name", CASES)
def test_no_shape_depends_on_a_value(name, tmp_path):
    objective, batch = every.case_of(name, tmp_path, layers=1)
    passes = [placed(batch, objective, torch.device("cpu"))]
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = [_fake(mode, item) for item in passes]
        result = backward(objective, objective, fake, Worker(), seed=1, step=0, autocast=None)
    assert result.loss.shape == ()


def _fake(mode, batch):
    return {
        name: mode.from_tensor(value) if torch.is_tensor(value) else value
        for name, value in batch.items()
    }
