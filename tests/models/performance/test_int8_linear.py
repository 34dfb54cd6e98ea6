"""Linear layers in int8: near the exact ones, and alike in every batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from road_ray.models.performance.int8_linear import Int8Linear, round_to_int8


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return nn.Linear(128, 64)


def test_products_are_within_two_roundings_of_the_exact_ones(layer):
    inputs = torch.randn(3, 5, 128)
    inputs[0] *= 1000  # each row has a scale of its own
    exact, ours = layer(inputs), Int8Linear(layer)(inputs)
    assert ours.shape == exact.shape
    row_norms = inputs.norm(dim=-1, keepdim=True) * layer.weight.norm(dim=1)
    assert ((ours - exact).abs() / row_norms).max() < 0.01
    assert not torch.equal(ours, exact)


def test_a_row_is_answered_alike_in_every_batch(layer):
    inputs = torch.randn(6, 128)
    rounded = Int8Linear(layer)
    alone = torch.cat([rounded(row[None]) for row in inputs])
    assert torch.equal(rounded(inputs), alone)


def test_rows_of_zeros_and_layers_without_bias_are_exact(layer):
    assert_close(Int8Linear(layer)(torch.zeros(2, 128)), layer(torch.zeros(2, 128)))
    plain = nn.Linear(128, 64, bias=False)
    assert not Int8Linear(plain)(torch.zeros(2, 128)).any()


def test_large_layers_are_rounded_and_the_output_of_a_head_is_not(layer):
    model = nn.Sequential(layer, nn.LayerNorm(64), nn.Linear(64, 3))
    round_to_int8(model)
    assert [type(part) for part in model] == [Int8Linear, nn.LayerNorm, nn.Linear]
