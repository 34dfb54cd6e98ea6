"""A checkpoint is that of one step, written while the loop goes on; what fails is told."""

from __future__ import annotations

import hashlib
import threading
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from road_ray.errors import ResourceError
from road_ray.training.checkpoint.async_save import AsyncSaver
from road_ray.training.checkpoint.atomic_commit import Checkpoints, verify
from road_ray.training.checkpoint.state import named_tensors
from road_ray.training.worker import Worker


class Model(torch.nn.Module):
    """Two tied layers and an export."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.two.weight = self.one.weight

    def export(self, directory):
        directory.mkdir()
        (directory / "sum").write_text(str(float(self.one.weight.detach().sum())))
        (directory / "vocab.txt").write_text("a")


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A saver whose disk waits for ``gate``."""
    gate, model = threading.Event(), Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    real = checkpoints.save

    def save(step, write):
        gate.wait(60)
        return real(step, write)

    monkeypatch.setattr(checkpoints, "save", save)
    training = SimpleNamespace(
        checkpoints=checkpoints,
        seed=1,
        identity={},
        configuration={},
        record={},
        tokenizer=None,
        config=SimpleNamespace(mirror=None),
    )
    return (
        gate,
        model,
        optimizer,
        checkpoints,
        AsyncSaver(model, model, optimizer, training, Worker()),
    )


def update(model, optimizer):
    (model.one(torch.ones(2, 4)) + model.two(torch.ones(2, 4))).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def test_the_loop_goes_on_and_the_checkpoint_stays_that_of_its_step(slow):
    gate, model, optimizer, checkpoints, saver = slow
    for step in (1, 2):  # the second one fills the twin of the first
        gate.clear()
        update(model, optimizer)
        before = {name: tensor.clone() for name, tensor in named_tensors(model).items()}
        moments = optimizer.state[model.one.weight]["exp_avg"].clone()
        saver.save(step, wait=False)
        update(model, optimizer)
        gate.set()
        saver.finish()
        directory = checkpoints.newest()
        assert directory.name == f"step-{step:08d}"
        assert verify(directory) == []
        saved = load_file(directory / "model.safetensors")
        assert set(saved) == set(before) == {"one.weight", "one.bias", "two.bias"}
        assert all(torch.equal(saved[name], before[name]) for name in before)
        remaining = load_file(directory / "optimizer.safetensors")
        assert any(torch.equal(tensor, moments) for tensor in remaining.values())
        assert float((directory / "hf" / "sum").read_text()) == float(before["one.weight"].sum())


def test_a_failure_is_raised_by_the_next_call(slow, monkeypatch):
    _, model, optimizer, checkpoints, saver = slow
    update(model, optimizer)

    def full(step, write):
        raise ResourceError("no space")

    monkeypatch.setattr(checkpoints, "save", full)
    saver.save(1, wait=False)
    with pytest.raises(ResourceError, match="no space"):
        saver.save(2, wait=False)
    with pytest.raises(ResourceError, match="no space"):
        saver.save(3, wait=True)


def test_no_file_is_hashed_twice(slow, monkeypatch):
    """Neither those of the exported model nor those of the checkpoint before."""
    gate, model, optimizer, _, saver = slow
    gate.set()
    hashed, digest = [], hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda f, kind: hashed.append(f) or digest(f, kind))
    for step in (1, 2):
        update(model, optimizer)
        saver.save(step, wait=True)
    names = [file.name.replace(".tmp-", "") for file in hashed]
    assert len(set(names)) == len(names) == 2 * 6


def test_workers_that_do_not_lead_write_nothing(slow, tmp_path):
    _, model, optimizer, _, _ = slow
    saver = AsyncSaver(model, model, optimizer, None, Worker(rank=1, size=1))
    saver.save(1, wait=True)
    assert not (tmp_path / "checkpoints").exists()
