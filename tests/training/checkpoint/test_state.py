"""Bit-equal round trips of weights and optimizers through files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from road_ray.errors import CheckpointError
from road_ray.training.checkpoint.atomic_commit import verify
from road_ray.training.checkpoint.state import (
    gathered_optimizer,
    named_tensors,
    restore,
    write_tensors,
)
from road_ray.training.config import OptimizerConfig
from road_ray.training.optimization.optimizer import build_optimizer


def updated(tiny, objective, optimizer, numbers):
    for number in numbers:
        optimizer.set_rate(0.5)
        torch.manual_seed(number)
        sum(
            term.total
            for term in objective(
                objective.prepare(tiny.stream(tiny.rows())[number])
            ).terms.values()
        ).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def saved(directory, objective, optimizer):
    tensors, groups = gathered_optimizer(objective, optimizer)
    write_tensors(directory / "model.safetensors", named_tensors(objective))
    write_tensors(directory / "optimizer.safetensors", tensors)
    return json.loads(json.dumps({"optimizer": groups}))


@pytest.mark.parametrize("name", ["adamw", "lamb"])
@pytest.mark.parametrize("kind", ["electra", "supervised"])  # tied weights; heads without a step
def test_a_training_goes_on_bit_for_bit(tiny, tmp_path, kind, name):
    config = OptimizerConfig(name=name, layer_decay=0.8)
    straight, resumed = (getattr(tiny, kind)() for _ in range(2))
    optimizer = build_optimizer(straight, config)
    updated(tiny, straight, optimizer, range(3))
    state = saved(tmp_path, straight, optimizer)
    for parameter in resumed.parameters():
        parameter.data.normal_()
    other = build_optimizer(resumed, config)
    restore(resumed, other, tmp_path, state)
    assert [group["updates"] for group in other.param_groups] == [
        group["updates"] for group in optimizer.param_groups
    ]
    for training in ((straight, optimizer), (resumed, other)):
        updated(tiny, *training, range(3, 6))
    ours, theirs = resumed.state_dict(), straight.state_dict()
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    for a, b in zip(straight.parameters(), resumed.parameters(), strict=True):
        assert optimizer.state.get(a, {}).keys() == other.state.get(b, {}).keys()


def test_a_checkpoint_of_another_model_or_version_and_a_damaged_file_are_refused(tiny, tmp_path):
    objective = tiny.supervised()
    optimizer = build_optimizer(objective, OptimizerConfig())
    updated(tiny, objective, optimizer, range(1))
    state = saved(tmp_path, objective, optimizer)

    def refused(message, objective=objective, state=state):
        with pytest.raises(CheckpointError, match=message) as error:
            restore(objective, build_optimizer(objective, OptimizerConfig()), tmp_path, state)
        assert str(error.value).startswith(f"{tmp_path}: ")

    refused("an earlier version of road_ray wrote it", state={"optimizer": {"class": "AdamW"}})
    other = tiny.supervised(tasks=(tiny.nli, tiny.mrc))
    refused("does not match the model: 4 missing", objective=other)
    weights = load_file(tmp_path / "model.safetensors")
    name = next(name for name in weights if name.endswith("word_embeddings.weight"))
    save_file(weights | {name: torch.zeros(2, 3)}, tmp_path / "model.safetensors")
    refused("does not match this training: (?s:.*)size mismatch")
    (tmp_path / "model.safetensors").write_bytes(b"x" * 40)
    refused("does not match this training")


def test_a_checkpoint_of_the_version_before_is_whole_and_its_weights_load():
    directory = Path(__file__).parents[2] / "fixtures" / "checkpoint_v1" / "step-00000003"
    assert verify(directory) == []
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    module.load_state_dict(load_file(directory / "model.safetensors"))
