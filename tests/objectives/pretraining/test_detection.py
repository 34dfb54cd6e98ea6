"""Loss and figures of detection, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from road_ray.objectives.pretraining.electra import detection_losses

SCORES = torch.tensor([[2.0, -1.0, 3.0, -0.5]])
REPLACED = torch.tensor([[True, True, False, False]])


def test_the_label_is_1_where_a_token_is_replaced():
    losses = detection_losses(torch.tensor([[math.log(3), math.log(3)]]), REPLACED[:, 1:3])
    # sigmoid(log 3) = 3/4
    assert losses[0].tolist() == pytest.approx([-math.log(0.75), -math.log(0.25)])
