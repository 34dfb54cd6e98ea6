"""State of checkpoints: saved and restored bit for bit, whole or sharded, by a thread."""

import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from road_ray.errors import CheckpointError, DivergedError, ResourceError
from road_ray.training.checkpoint_directory import verify
from road_ray.training.checkpoint_state import (
    AsyncSaver,
    gathered_optimizer,
    named_tensors,
    restore,
)
from road_ray.training.config import OptimizerConfig
from road_ray.training.optimizer import build_optimizer
from road_ray.training.worker import Worker
from tests.training import conftest as tiny


def test_a_checkpoint_of_another_model_or_version_and_a_damaged_file_are_refused(tmp_path):
    objective = tiny.supervised()
    tensors, groups = gathered_optimizer(objective, build_optimizer(objective, OptimizerConfig()))
    save_file(named_tensors(objective), tmp_path / "model.safetensors")
    save_file(tensors, tmp_path / "optimizer.safetensors")
    state = {"optimizer": groups}

    def refused(message, objective=objective, state=state):
        with pytest.raises(CheckpointError, match=message) as error:
            restore(objective, build_optimizer(objective, OptimizerConfig()), tmp_path, state)
        assert str(error.value).startswith(f"{tmp_path}: ")

    refused("an earlier version of road_ray wrote it", state={"optimizer": {"class": "AdamW"}})
    other = tiny.supervised(tasks=(tiny.NLI, tiny.MRC))
    refused("does not match the model: 4 missing", objective=other)
    weights = load_file(tmp_path / "model.safetensors")
    name = next(name for name in weights if name.endswith("word_embeddings.weight"))
    save_file(weights | {name: torch.zeros(2, 3)}, tmp_path / "model.safetensors")
    refused("does not match this training: (?s:.*)size mismatch")
    (tmp_path / "model.safetensors").write_bytes(b"x" * 40)
    refused("does not match this training")


def test_a_checkpoint_of_the_version_before_is_whole_and_its_weights_load():
    directory = Path(__file__).parents[1] / "fixtures" / "checkpoint_v1" / "step-00000003"
    assert verify(directory) == []
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    module.load_state_dict(load_file(directory / "model.safetensors"))


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
    training = tiny.training(tmp_path)
    checkpoints, real = training.checkpoints, training.checkpoints.save

    def save(step, write):
        gate.wait(60)
        return real(step, write)

    monkeypatch.setattr(checkpoints, "save", save)
    saver = AsyncSaver(model, model, optimizer, training)
    return gate, model, optimizer, checkpoints, saver


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


def test_a_failure_is_raised_by_the_next_call_and_hides_no_error_of_the_loop(
    slow, monkeypatch, caplog
):
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
    saver.save(4, wait=False)
    with pytest.raises(DivergedError, match="step 5"), saver:
        raise DivergedError("step 5")
    assert "could not be written: no space" in caplog.text


def test_workers_that_do_not_lead_write_nothing(slow, tmp_path):
    _, model, optimizer, _, _ = slow
    saver = AsyncSaver(model, model, optimizer, tiny.training(tmp_path, worker=Worker(rank=1)))
    saver.save(1, wait=True)
    assert not (tmp_path / "checkpoints").exists()
