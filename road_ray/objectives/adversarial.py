"""ELECTRA with a generator that learns to fool the discriminator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.models.encoder import initialize_output
from road_ray.models.language_model import detection_scores, states, vocabulary_logits
from road_ray.objectives.base import Term
from road_ray.objectives.electra import Electra
from road_ray.objectives.masking import corrupt, sample
from road_ray.objectives.parts.corruption import language_model
from road_ray.objectives.parts.detection import detection_gauges, detection_losses
from road_ray.objectives.parts.generator import Generator


def policy_loss(log_chances: Tensor, rewards: Tensor, baselines: Tensor) -> Tensor:
    """Summed ``-log p(sample) * (reward - baseline)``: its gradient descends where the expected
    reward ascends. ``[N]`` each; rewards and baselines carry no gradient.
    """
    return -(log_chances * (rewards - baselines).detach()).sum()


class Adversarial(Electra):
    """As ``Electra``, but the generator maximises the discriminator's loss at chosen positions.

    By REINFORCE with one sample; the baseline ``-log sigmoid(w h)`` of the generator's states is
    learnt by cross-entropy with the discriminator's chance to be right. Source: Clark et al. 2020,
    section 3.3 and appendix. That the baseline sends no gradient into the generator is our choice.
    """

    def __init__(
        self,
        generator: Generator,
        discriminator: PreTrainedModel,
        *,
        generator_weight: float = 1.0,
        **electra: Any,
    ) -> None:
        learning = language_model(generator, "adversarial")
        super().__init__(learning, discriminator, **electra)
        self.baseline = nn.Linear(int(learning.config.hidden_size), 1)
        initialize_output(self.baseline)
        self.generator_weight = generator_weight

    def forward(self, batch: Batch) -> dict[str, Term]:
        tokens, real = batch["input_ids"], batch["attention_mask"]
        chosen, masked = self.hide(batch)
        hidden = states(self.generator.base_model, masked, batch)[chosen]
        logits = vocabulary_logits(self.generator, hidden).float()
        sampled = sample(logits, batch["noise"][2][chosen], temperature=self.temperature)
        corrupted, replaced = corrupt(tokens, chosen, tokens.masked_scatter(chosen, sampled))
        scores = detection_scores(self.discriminator, corrupted, batch)
        losses = detection_losses(scores, replaced)
        rewards = losses.detach()[chosen]
        guess = self.baseline(hidden.detach()).squeeze(-1).float()
        log_chances = functional.log_softmax(logits / self.temperature, -1)
        taken = log_chances.gather(1, sampled[:, None]).squeeze(1)
        policy = policy_loss(taken, rewards, -functional.logsigmoid(guess))
        right = functional.binary_cross_entropy_with_logits(
            guess, torch.exp(-rewards), reduction="sum"
        )
        count, num_real = chosen.sum(), real.sum()
        correct = (logits.detach().argmax(-1) == tokens[chosen]).sum()
        entropy = torch.special.entr(log_chances.detach().exp()).sum()
        self.gauges = detection_gauges(scores, replaced, real.bool()) | {
            "generator_accuracy": (correct, count),
            "generator_entropy": (entropy, count),
            "generator_reward": (rewards.sum(), count),
            "replaced_fraction": (replaced.sum(), num_real),
        }
        return {
            "generator": Term(policy, count, self.generator_weight),
            "baseline": Term(right, count),
            "discriminator": Term((losses * real).sum(), num_real, self.discriminator_weight),
        }
