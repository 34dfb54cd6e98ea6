"""The products of a step, counted by hand, over what the device multiplies in a second."""

from __future__ import annotations

import pytest
import torch

from road_ray.training.loop import train
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.training.performance import mfu
from road_ray.training.performance.mfu import (
    SHARE,
    ModelFlopsUtilization,
    forward_flops,
)
from road_ray.training.worker import Worker

ALONE = Worker()


def test_a_forward_pass_is_counted_product_by_product(tiny):
    objective = tiny.supervised(dropout=0.0, tasks=(tiny.nli,))
    batch = next(iter(tiny.stream(tiny.rows(length=8)).since(0)))
    places = batch["input_ids"].numel()
    # config_of(32): 2 layers of 32, inner width 32; embeddings of 16; the head has a layer of 32.
    layers = 2 * (4 * 32 * 32 + 2 * 32 * 32)
    head = len(batch["input_ids"]) * (32 * 32 + 32 * 3)
    assert forward_flops(objective, batch, ALONE, None) == 2 * (places * (layers + 16 * 32) + head)


def test_the_share_is_operations_over_rate(tiny, monkeypatch):
    objective = tiny.supervised(tasks=(tiny.nli,))
    batch = next(iter(tiny.stream(tiny.rows(length=8)).since(0)))
    flops = forward_flops(objective, batch, ALONE, None)
    monkeypatch.setattr(mfu, "measured_peak_flops", lambda device, dtype: 1000.0 * flops)
    share = ModelFlopsUtilization(objective, ALONE, None)
    places = batch["attention_mask"].numel()
    # Ten such steps a second, a quarter of whose places are padding: 3 * 10 / 1000.
    row = {"time/tokens_per_second": 10 * places * 0.75, "data/padding_fraction": 0.25}
    assert share.of(row, [batch])[SHARE] == pytest.approx(0.03)


def test_every_row_tells_it(tiny, tmp_path):
    stream = tiny.stream(tiny.rows())
    train(
        tiny.supervised(tasks=(tiny.nli,)),
        lambda start: ([batch] for batch in stream.since(start)),
        tiny.training(tmp_path, steps=3),
        ALONE,
    )
    shares = [row[SHARE] for row in read_rows(tmp_path / "metrics.jsonl")]
    assert len(shares) == 3
    assert all(0 < share < 1 for share in shares)


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
    device = torch.device("cuda")
    assert mfu.peak_flops(device, torch.bfloat16) == pytest.approx(reduced)
    assert mfu.peak_flops(device, torch.float32) == pytest.approx(full)


def test_products_are_counted_anew_where_rows_are_twice_as_long(tiny, monkeypatch):
    objective = tiny.supervised(tasks=(tiny.nli,))
    share, counted = ModelFlopsUtilization(objective, ALONE, None), []
    monkeypatch.setattr(
        mfu, "forward_flops", lambda _, b, *__: counted.append(b["input_ids"].shape[1]) or 1
    )
    row = {"time/tokens_per_second": 1.0, "data/padding_fraction": 0.0}
    for length in (8, 8, 16, 24, 8, 16):
        share.of(row, [next(iter(tiny.stream(tiny.rows(length=length)).since(0)))])
    assert counted == [8, 16]
