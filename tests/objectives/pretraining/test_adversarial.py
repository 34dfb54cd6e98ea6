"""REINFORCE: the sign of the gradient, the reward, the baseline."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from road_ray.errors import ConfigError
from road_ray.models.language_model import detection_scores
from road_ray.objectives.pretraining.adversarial import Adversarial, policy_loss
from road_ray.objectives.pretraining.electra import Electra
from road_ray.objectives.pretraining.generator import Frequencies
from tests.objectives.conftest import MASK, SPECIAL, VOCAB

OPTIONS = {"special_ids": SPECIAL, "mask_id": MASK}


def test_descending_makes_what_was_rewarded_above_the_baseline_likelier():
    logits = torch.zeros(2, 3, requires_grad=True)
    chances = functional.log_softmax(logits, -1)[:, 0]
    policy_loss(chances, torch.tensor([2.0, 0.5]), torch.tensor([1.0, 1.0])).backward()
    # d/dz of -log p * advantage = (p - onehot) * advantage, advantages 1 and -1/2
    expected = torch.tensor([[-2 / 3, 1 / 3, 1 / 3], [1 / 3, -1 / 6, -1 / 6]])
    assert_close(logits.grad, expected)


def test_the_policy_gradient_is_that_of_the_expected_reward():
    torch.manual_seed(0)
    logits = torch.randn(4, requires_grad=True)
    rewards = torch.tensor([1.0, 3.0, 0.5, 2.0])
    exact = torch.autograd.grad((torch.softmax(logits, -1) * rewards).sum(), logits)[0]
    chances = functional.log_softmax(logits, -1)
    shares = torch.softmax(logits, -1).detach()
    baseline = torch.tensor(1.7)  # any: its expected gradient is zero
    total = sum(shares[i] * policy_loss(chances[i], rewards[i], baseline) for i in range(4))
    assert_close(torch.autograd.grad(-total, logits)[0], exact)


def test_rewards_are_the_detectors_losses_at_chosen_positions(generator, discriminator, batch):
    objective = Adversarial(generator, discriminator, **OPTIONS)
    losses = objective(batch)
    terms = losses.terms
    electra = Electra(generator, discriminator, **OPTIONS)
    made = electra.corrupted(electra.prepare(batch))  # the same noise draws the same samples
    scores = detection_scores(discriminator, made.tokens, batch)[made.chosen]
    # -log D where the sample is the original, -log(1 - D) elsewhere; D = P(real) = sigmoid(-score)
    real = torch.sigmoid(-scores)
    rewards = -torch.where(made.replaced[made.chosen], 1 - real, real).log()
    total, count = losses.metrics["generator_reward"]
    assert_close(total, rewards.sum(), rtol=1e-4, atol=1e-5)
    assert int(count) == int(terms["generator"].count) == 10
    assert_close(terms["discriminator"].total, electra(batch).terms["discriminator"].total)


def test_the_baseline_learns_alone_and_fits_the_chance_to_be_right(generator, discriminator, batch):
    objective = Adversarial(generator, discriminator, **OPTIONS)
    objective(batch).terms["baseline"].total.backward()
    names = {name for name, p in objective.named_parameters() if p.grad is not None}
    assert names == {"baseline.weight", "baseline.bias"}
    objective.zero_grad()
    objective(batch).terms["generator"].total.backward()
    reached = {name for name, p in objective.named_parameters() if p.grad is not None}
    assert not reached & {"baseline.weight", "baseline.bias"}
    assert not any(name.startswith("discriminator.discriminator_pred") for name in reached)


def test_a_generator_that_does_not_learn_is_refused(discriminator):
    with pytest.raises(ConfigError, match="adversarial needs a generator that learns"):
        Adversarial(Frequencies(torch.ones(VOCAB)), discriminator, **OPTIONS)
