"""Measured steps of a plan, model FLOPs utilization, operations of an encoder."""

import time

import pytest
import torch

from road_ray.training import loop, profile
from road_ray.training.profile import forward_flops
from road_ray.training.worker import Worker
from tests.training import conftest as tiny

ALONE = Worker()


def measured(tmp_path, stream, steps=6):
    """The cost of a training on the batches of ``stream``."""
    training = tiny.training(tmp_path, totals=lambda: stream.totals(steps), steps=steps)
    drawn = lambda start: ([batch] for batch in stream.since(start))  # noqa: E731
    return profile.measure(tiny.electra(dropout=0.0), drawn, training, None)


def test_rows_of_whole_batches_are_reckoned_from_parts(tmp_path, monkeypatch):
    """A step that would take too long is measured on two rows; sizes and counts are of all."""
    whole = measured(tmp_path, tiny.stream(tiny.rows(length=16)))
    monkeypatch.setattr(profile, "_LONGEST_STEP_SECONDS", 0.0)
    part = measured(tmp_path, tiny.stream(tiny.rows(length=16)))
    assert part.rows_per_step == whole.rows_per_step
    assert part.tokens_per_step == whole.tokens_per_step
    assert part.parameters == whole.parameters
    assert part.activation_bytes == pytest.approx(whole.activation_bytes, rel=0.25)


def test_a_forward_pass_is_counted_product_by_product_and_changes_nothing():
    objective = tiny.supervised(dropout=0.0, tasks=(tiny.NLI,))
    batch = next(iter(tiny.stream(tiny.rows(length=8)).since(0)))
    places, rows = batch["input_ids"].numel(), len(batch["input_ids"])
    # config_of(32): 2 layers of 32, inner width 32, that of the last for first tokens alone;
    # embeddings of 16; the head has a layer of 32.
    layers = 2 * 4 * 32 * 32 + 2 * 32 * 32
    head = rows * (2 * 32 * 32 + 32 * 32 + 32 * 3)
    assert forward_flops(objective, batch, ALONE, None) == 2 * (places * (layers + 16 * 32) + head)
    # A parameter may be the input of a layer, and statistics stay as they are.
    objective, query = torch.nn.Module(), torch.nn.Parameter(torch.ones(1, 4))
    objective.norm, layer = torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)
    objective.forward = lambda _: layer(objective.norm(query.expand(3, 4)))
    assert forward_flops(objective, {}, ALONE, None) == 2 * 3 * 4 * 2
    assert objective.norm.num_batches_tracked == 0
    assert objective.training


def test_the_share_is_operations_over_rate(monkeypatch, tmp_path):
    objective = tiny.supervised(tasks=(tiny.NLI,))
    batch = next(iter(tiny.stream(tiny.rows(length=8)).since(0)))
    flops = forward_flops(objective, batch, ALONE, None)
    monkeypatch.setattr(loop, "peak_flops", lambda device, dtype: 1000.0 * flops)
    metrics = loop.StepMetrics(objective, tiny.training(tmp_path), None, {})
    batch["attention_mask"][:, :2] = 0  # padding counts
    metrics.add(1, loop.StepResult(), [batch], 0.0, time.perf_counter() - 10.0)
    metrics.write(1, {}, [batch])
    assert metrics.row["time/mfu"] == pytest.approx(3 / 10 / 1000, rel=0.01)  # 10 seconds a step


@pytest.mark.parametrize(
    ("name", "reduced", "full"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12, 67e12),
        ("NVIDIA H100 PCIe", 756e12, 51e12),
        ("NVIDIA A100-SXM4-40GB", 312e12, 19.5e12),
        ("NVIDIA L4", 121e12, 30.3e12),
    ],
)
def test_a_known_device_is_rated_by_its_data_sheet(monkeypatch, name, reduced, full):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    profile.peak_flops.cache_clear()
    device = torch.device("cuda")
    assert profile.peak_flops(device, torch.bfloat16) == pytest.approx(reduced)
    assert profile.peak_flops(device, torch.float32) == pytest.approx(full)
