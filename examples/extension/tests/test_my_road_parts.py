"""The contracts of the parts, as road_ray ships them, and what each computes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from my_road_parts import MeanPooling, kappa

from road_ray.testing import check_head, check_metric, check_reader, check_rule, check_tracker

FILES = Path(__file__).parents[1]


def test_parts_keep_their_contracts():
    check_rule("my_road_parts:agreement")
    check_metric("my_road_parts:kappa")
    check_reader("my_road_parts:fasttext", FILES / "reviews-dev.txt", ["text", "label"])
    check_tracker("my_road_parts:csv_tracker")
    check_head("my_road_parts:MeanPooling")


def test_kappa_is_agreement_beyond_chance():
    gold, predicted = np.array([0.0, 0, 1, 1]), np.array([0.0, 0, 0, 1])
    assert kappa(gold, predicted) == pytest.approx(0.5)  # (3/4 - 1/2) / (1 - 1/2)


def test_mean_pooling_leaves_padding_out():
    head, states = MeanPooling(4, 2), torch.randn(1, 3, 4)
    mean = states[:, :2].mean(1, keepdim=True)
    expected = head(mean, torch.ones(1, 1))
    torch.testing.assert_close(head(states, torch.tensor([[1, 1, 0]])), expected)
