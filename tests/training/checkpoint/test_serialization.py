"""Bit-equal round trips of tensors, optimizers and generators through files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from road_ray.errors import CheckpointError
from road_ray.training.checkpoint.atomic_commit import verify
from road_ray.training.checkpoint.serialization import (
    load_optimizer,
    optimizer_tensors,
    tensors_from_file,
    tensors_to_file,
)

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
]


def same(a, b):
    """Equal in structure, type, dtype and every bit."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return (
            type(a) is type(b)
            and len(a) == len(b)
            and all(same(x, y) for x, y in zip(a, b, strict=True))
        )
    return type(a) is type(b) and a == b


def model(seed=0, width=4):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, width), nn.Linear(width, 2))


def groups(module):
    weights = [p for p in module.parameters() if p.ndim > 1]
    biases = [p for p in module.parameters() if p.ndim == 1]
    return [{"params": weights, "lr": 1e-2 / 3}, {"params": biases, "weight_decay": 0.0}]


def steps(module, optimizer, count):
    for step in range(count):
        optimizer.zero_grad()
        data = torch.arange(12.0).reshape(4, 3) / (step + 3)
        module(data).square().mean().backward()
        optimizer.step()


def through_files(directory, optimizer):
    tensors, layout = optimizer_tensors(optimizer)
    tensors_to_file(directory / "optimizer.safetensors", tensors)
    return tensors_from_file(directory / "optimizer.safetensors"), json.loads(json.dumps(layout))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_keeps_dtype_and_bits(tmp_path, dtype):
    value = (torch.arange(24).reshape(4, 6) % 7).to(dtype)
    tensors_to_file(tmp_path / "t", {"a": value, "scalar": value[1, 1], "empty": value[:0]})
    back = tensors_from_file(tmp_path / "t")
    assert same(back, {"a": value, "scalar": value[1, 1], "empty": value[:0]})


def test_tied_transposed_and_sliced_tensors_are_written_whole(tmp_path):
    base = torch.arange(12.0).reshape(3, 4)
    given = {"a": base, "tied": base, "turned": base.T, "slice": base[1:], "column": base[:, 1]}
    tensors_to_file(tmp_path / "t", given)
    assert same(tensors_from_file(tmp_path / "t"), given)


def test_a_damaged_file_is_named(tmp_path):
    tensors_to_file(tmp_path / "t", {"a": torch.ones(9)})
    (tmp_path / "t").write_bytes((tmp_path / "t").read_bytes()[:-4])
    with pytest.raises(CheckpointError, match=f"{tmp_path}/t: not a readable"):
        tensors_from_file(tmp_path / "t")
    with pytest.raises(CheckpointError, match="missing: not a readable"):
        tensors_from_file(tmp_path / "missing")


def test_a_refusing_disk_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        tensors_to_file(tmp_path / "nowhere" / "t", {"a": torch.ones(9)})


OPTIMIZERS = [
    (torch.optim.AdamW, {"lr": 1e-3}),
    (torch.optim.AdamW, {"lr": 1e-3, "fused": True}),
    (torch.optim.AdamW, {"lr": 1e-3, "amsgrad": True, "foreach": True}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch.optim.RMSprop, {"lr": 1e-3}),
]


@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS)
def test_an_optimizer_goes_on_bit_for_bit(tmp_path, kind, options):
    straight = model()
    optimizer = kind(groups(straight), **options)
    steps(straight, optimizer, 3)
    tensors, layout = through_files(tmp_path, optimizer)
    resumed = model(seed=1)
    resumed.load_state_dict(straight.state_dict())
    other = kind(groups(resumed), **(options | {"lr": 7.0}))
    load_optimizer(other, tensors, layout)
    assert same(other.state_dict(), optimizer.state_dict())
    before = [p.clone() for p in straight.parameters()]
    steps(straight, optimizer, 2)
    steps(resumed, other, 2)
    assert same(list(straight.state_dict().values()), list(resumed.state_dict().values()))
    assert not same(before, list(straight.parameters()))


def test_an_untouched_optimizer_has_no_state(tmp_path):
    optimizer = torch.optim.AdamW(model().parameters())
    tensors, layout = through_files(tmp_path, optimizer)
    assert tensors == {}
    load_optimizer(torch.optim.AdamW(model().parameters()), tensors, layout)


class Master(torch.optim.Optimizer):
    """Keeps a float32 copy of bfloat16 parameters."""

    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                copy = self.state[p].setdefault("master", p.detach().float() / 3)
                copy -= group["lr"]


def test_state_that_is_wider_than_its_parameter_keeps_its_bits(tmp_path):
    optimizer = Master(model().bfloat16().parameters())
    optimizer.step()
    tensors, layout = through_files(tmp_path, optimizer)
    other = Master(model().bfloat16().parameters())
    load_optimizer(other, tensors, layout)
    assert same(other.state_dict(), optimizer.state_dict())


def saved(tmp_path):
    module = model()
    optimizer = torch.optim.AdamW(groups(module))
    steps(module, optimizer, 1)
    return through_files(tmp_path, optimizer)


def test_another_shape_number_class_or_grouping_is_refused(tmp_path):
    tensors, layout = saved(tmp_path)
    cases = {
        r"number 0: saved \[4, 3\], now \[5, 3\]": torch.optim.AdamW(groups(model(width=5))),
        "4 parameters were saved, this optimizer has 2": torch.optim.AdamW(
            model()[:1].parameters()
        ),
        "saved by AdamW, this optimizer is SGD": torch.optim.SGD(groups(model())),
    }
    for message, optimizer in cases.items():
        with pytest.raises(CheckpointError, match=message):
            load_optimizer(optimizer, tensors, layout)
    ordered = [p for group in groups(model()) for p in group["params"]]
    with pytest.raises(CheckpointError, match=r"groups of \[2, 2\].*has \[4\]"):
        load_optimizer(torch.optim.AdamW(ordered), tensors, layout)


def test_a_missing_tensor_is_named(tmp_path):
    tensors, layout = saved(tmp_path)
    del tensors["optimizer.state.0.exp_avg"]
    with pytest.raises(CheckpointError, match=r"optimizer\.state\.0\.exp_avg"):
        load_optimizer(torch.optim.AdamW(groups(model())), tensors, layout)


def test_a_checkpoint_of_format_1_still_loads():
    directory = Path(__file__).parents[2] / "fixtures" / "checkpoint_v1" / "step-00000003"
    assert verify(directory) == []
    module = model(seed=1)
    module.load_state_dict(tensors_from_file(directory / "model.safetensors"))
    optimizer = torch.optim.AdamW(groups(module))
    layout = json.loads((directory / "state.json").read_text())["optimizer"]
    load_optimizer(optimizer, tensors_from_file(directory / "optimizer.safetensors"), layout)
    assert optimizer.param_groups[0]["lr"] == 1e-2 / 3
    assert [state["step"].item() for state in optimizer.state.values()] == [3.0] * 4
