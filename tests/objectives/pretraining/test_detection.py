"""Loss and figures of detection, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from road_ray.objectives.pretraining.detection import detection_losses, detection_metrics

SCORES = torch.tensor([[2.0, -1.0, 3.0, -0.5]])
REPLACED = torch.tensor([[True, True, False, False]])


def test_the_label_is_1_where_a_token_is_replaced():
    losses = detection_losses(torch.tensor([[math.log(3), math.log(3)]]), REPLACED[:, 1:3])
    # sigmoid(log 3) = 3/4
    assert losses[0].tolist() == pytest.approx([-math.log(0.75), -math.log(0.25)])


def test_figures_count_what_is_counted():
    result = detection_metrics(SCORES, REPLACED, torch.tensor([[True, True, True, True]]))
    shares = {name: (float(total), int(count)) for name, (total, count) in result.items()}
    assert shares["detection_accuracy"] == (2, 4)
    assert shares["detection_recall"] == (1, 2)
    assert shares["detection_precision"] == (1, 2)
    assert shares["detection_specificity"] == (1, 2)
    # Of four pairs (replaced above original) 2 > -0.5 alone holds.
    assert shares["detection_auc"] == (1.0, 4)
    some = detection_metrics(SCORES, REPLACED, torch.tensor([[True, False, False, True]]))
    assert float(some["detection_accuracy"][0]) == 2
