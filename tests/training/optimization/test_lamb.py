"""LAMB by hand, and beside the Adam that it is made of."""

from __future__ import annotations

import pytest
import torch

from road_ray.training.config import OptimizerConfig
from road_ray.training.optimization.optimizer import ElectraAdamW, Lamb, build_optimizer


def group(parameter, decay):
    settings = {"peak_lr": 0.1, "peak_weight_decay": decay, "updates": 0}
    return [{"params": [parameter]} | settings]


def test_the_step_is_as_long_as_the_weights_times_the_rate():
    weights = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    lamb = Lamb(group(weights, 0.01), OptimizerConfig(bias_correction=True))
    weights.grad = torch.tensor([[0.5, -2.0]])
    lamb.set_rate(0.5)
    lamb.step()
    moved = torch.tensor([[3.0, 4.0]]) - weights.detach()
    assert float(moved.norm()) == pytest.approx(0.05 * 5, rel=1e-5)
    # The first corrected step of Adam is the sign of the gradient; the decay adds 0.01 w.
    direction = torch.tensor([[1.03, -0.96]])
    torch.testing.assert_close(moved / moved.norm(), direction / direction.norm())


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_a_matrix_moves_by_the_rate_times_its_norm_at_any_decay(decay):
    weights = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    lamb = Lamb(group(weights, decay), OptimizerConfig())
    weights.grad = torch.tensor([[0.5, -2.0]])
    lamb.set_rate(1.0)
    lamb.step()
    moved = torch.tensor([[3.0, 4.0]]) - weights.detach()
    assert float(moved.norm()) == pytest.approx(0.1 * 5, rel=1e-5)


@pytest.mark.parametrize("correct", [True, False])
def test_a_bias_is_updated_as_by_adam(correct):
    torch.manual_seed(0)
    start, config = torch.randn(6), OptimizerConfig(bias_correction=correct)
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    pair = Lamb(group(ours, 0.0), config), ElectraAdamW(group(theirs, 0.0), config)
    for _ in range(5):
        gradient = torch.randn(6)
        for parameter, optimizer in zip((ours, theirs), pair, strict=True):
            parameter.grad = gradient.clone()
            optimizer.set_rate(1.0)
            optimizer.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_weights_at_zero_move_and_what_has_no_gradient_stays():
    weights = torch.nn.Parameter(torch.zeros(2, 2))
    still = torch.nn.Parameter(torch.ones(2, 2))
    lamb = Lamb(group(weights, 0.01) + group(still, 0.01), OptimizerConfig())
    weights.grad = torch.ones(2, 2)
    lamb.set_rate(1.0)
    lamb.step()
    assert (weights != 0).all()
    assert (still == 1).all()


def test_the_configuration_chooses(tiny):
    assert type(build_optimizer(tiny.electra(), OptimizerConfig(name="lamb"))) is Lamb
    assert type(build_optimizer(tiny.electra(), OptimizerConfig())) is ElectraAdamW
