"""AdamW and LAMB against hand-computed updates; learning rates."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from road_ray.training.config import OptimizerConfig
from road_ray.training.optimizer import EPSILON, ElectraAdamW, Lamb, clip, parameter_groups, rate
from tests.training import conftest as tiny


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("warmup_times_decay", [0, 0.5 * 0.95, 1 - 10 / 100, 0.45, 0]),
        ("warmup_then_decay", [0, 0.5, 1, 0.5, 0]),
    ],
)
def test_warm_up_and_decay_multiply_or_follow_each_other(schedule, expected):
    rates = [rate(step, 100, 10, schedule) for step in range(101)]
    assert [rates[step] for step in (0, 5, 10, 55, 100)] == pytest.approx(expected)
    assert max(rates) == rates[10]


@pytest.mark.parametrize(
    ("layers", "rate", "decay", "mode", "expected"),  # ELECTRA-Base and ELECTRA-Large
    [
        (12, 1e-4, 0.8, "paper", {13: 1e-4, 12: 8e-5, 1: 6.9e-6, 0: 1e-4 * 0.8**13}),
        (12, 1e-4, 0.8, "electra_code", {13: 1e-4, 12: 6.4e-5, 1: 5.5e-6, 0: 1e-4 * 0.8**14}),
        (24, 5e-5, 0.9, "paper", {24: 4.5e-5, 1: 4.0e-6}),
        (24, 5e-5, 0.9, "electra_code", {24: 4.05e-5, 1: 3.6e-6}),
    ],
)
def test_layer_multipliers_are_those_of_the_paper_and_of_the_code(
    layers, rate, decay, mode, expected
):
    """By depth: 0 embeddings, 1..layers the blocks, layers + 1 the heads."""
    config = OptimizerConfig(peak_lr=rate, layer_decay=decay, layer_decay_mode=mode)
    rates = sorted({g["peak_lr"] for g in parameter_groups(tiny.supervised(layers=layers), config)})
    assert len(rates) == layers + 2
    for depth, value in expected.items():
        assert rates[depth] == pytest.approx(value, abs=5e-8 if depth == 1 else 1e-12)


def test_every_parameter_has_the_rate_of_its_depth_and_only_matrices_decay():
    objective = tiny.supervised(layers=3)
    config = OptimizerConfig(peak_lr=1.0, layer_decay=0.5, weight_decay=0.01)
    groups = parameter_groups(objective, config)
    of = {id(p): group for group in groups for p in group["params"]}
    named = dict(objective.named_parameters())
    assert sum(len(group["params"]) for group in groups) == len(of) == len(named)
    depths = {
        "embeddings.word_embeddings": 0.5**4,
        "embeddings_project": 0.5**4,
        "encoder.layer.0.": 0.5**3,
        "encoder.layer.2.": 0.5,
        "heads.": 1.0,
    }
    for name, parameter in named.items():
        group = of[id(parameter)]
        for part, share in depths.items():
            if part in name:
                assert group["peak_lr"] == share, name
        plain = "bias" in name or "LayerNorm" in name
        assert group["peak_weight_decay"] == (0.0 if plain else 0.01), name
    heads = [
        {n.split("heads.")[1][:3] for n, p in named.items() if of[id(p)] is g and "heads." in n}
        for g in groups
    ]
    assert all(len(names) <= 1 for names in heads)  # no group mixes the heads of two tasks


def group(parameter, decay):
    settings = {"peak_lr": 0.1, "peak_weight_decay": decay, "updates": 0}
    return [{"params": [parameter]} | settings]


class _ByHand:
    """google electra, model/optimization.py, line by line in double precision."""

    def __init__(self, value, decay, config):
        self.value, self.decay, self.config = value.double().clone(), decay, config
        self.m = self.v = torch.zeros_like(self.value)
        self.updates = 0

    def step(self, gradient, multiplier):
        c, gradient = self.config, gradient.double()
        self.updates += 1
        self.m = c.betas[0] * self.m + (1 - c.betas[0]) * gradient
        self.v = c.betas[1] * self.v + (1 - c.betas[1]) * gradient**2
        m, v = self.m, self.v
        if c.bias_correction:
            m = m / (1 - c.betas[0] ** self.updates)
            v = v / (1 - c.betas[1] ** self.updates)
        update = m / (v.sqrt() + EPSILON) + self.decay * self.value
        self.value = self.value - c.peak_lr * multiplier * update


@pytest.mark.parametrize("kind", [ElectraAdamW, Lamb])  # LAMB updates biases as Adam does
@pytest.mark.parametrize("bias_correction", [False, True])
def test_updates_equal_those_by_hand_with_heads_skipped_in_some_steps(bias_correction, kind):
    torch.manual_seed(0)
    config = OptimizerConfig(peak_lr=0.1, weight_decay=0.1, bias_correction=bias_correction)
    body, head = nn.Parameter(torch.randn(12)), nn.Parameter(torch.randn(5))
    optimizer = kind(group(body, 0.1) + group(head, 0.0), config)
    by_hand = [_ByHand(body.detach(), 0.1, config), _ByHand(head.detach(), 0.0, config)]
    for step in range(6):
        multiplier = rate(step, 6, 2, "warmup_times_decay")
        optimizer.set_rate(multiplier)
        for index, (parameter, hand) in enumerate(zip((body, head), by_hand, strict=True)):
            if index == 1 and step in (0, 3):  # no pass of that task in this step
                continue
            parameter.grad = torch.randn_like(parameter) * 10 ** (-step)
            hand.step(parameter.grad, multiplier)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        for parameter, hand in zip((body, head), by_hand, strict=True):
            assert_close(parameter.detach().double(), hand.value, rtol=1e-5, atol=1e-6)


def test_clipping_scales_to_the_joint_norm_and_tells_the_norm_before():
    layer = nn.Linear(1, 1)
    layer.weight.grad, layer.bias.grad = torch.tensor([[3.0]]), torch.tensor([4.0])
    assert clip(layer, 10.0) == 5
    assert layer.bias.grad == 4
    assert clip(layer, 1.0) == 5
    assert_close(torch.tensor([layer.weight.grad, layer.bias.grad]), torch.tensor([0.6, 0.8]))


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_the_step_is_as_long_as_the_weights_times_the_rate_at_any_decay(decay):
    weights = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    lamb = Lamb(group(weights, decay), OptimizerConfig(bias_correction=True))
    weights.grad = torch.tensor([[0.5, -2.0]])
    lamb.set_rate(0.5)
    lamb.step()
    moved = torch.tensor([[3.0, 4.0]]) - weights.detach()
    assert float(moved.norm()) == pytest.approx(0.05 * 5, rel=1e-5)
    # The first corrected step of Adam is the sign of the gradient; the decay adds its share of w.
    direction = torch.tensor([[1.0 + 3 * decay, -1.0 + 4 * decay]])
    torch.testing.assert_close(moved / moved.norm(), direction / direction.norm())


def test_weights_at_zero_move_and_what_has_no_gradient_stays():
    weights = torch.nn.Parameter(torch.zeros(2, 2))
    still = torch.nn.Parameter(torch.ones(2, 2))
    lamb = Lamb(group(weights, 0.01) + group(still, 0.01), OptimizerConfig())
    weights.grad = torch.ones(2, 2)
    lamb.set_rate(1.0)
    lamb.step()
    assert (weights != 0).all()
    assert (still == 1).all()
