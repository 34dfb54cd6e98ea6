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
from road_ray.objectives.base import Losses, Term
from road_ray.objectives.masking import rows_at
from road_ray.objectives.pretraining.electra import Electra, detection_losses, detection_metrics
from road_ray.objectives.pretraining.generator import Generator, language_model


def policy_loss(log_probabilities: Tensor, rewards: Tensor, baselines: Tensor) -> Tensor:
    """Return the summed ``-log p(sample) * (reward - baseline)``: ``[N], [N], [N] -> []``.

    Its gradient is that of the negative expected reward; rewards and baselines carry none.
    """
    return -(log_probabilities * (rewards - baselines).detach()).sum()


class Adversarial(Electra):
    """``Electra`` with a generator that maximises the discriminator's loss at chosen positions.

    The generator is trained by REINFORCE with one sample. The baseline ``-log sigmoid(w h)`` of the
    generator's states is trained by cross-entropy with the probability that the discriminator gives
    the correct answer; it sends no gradient into the generator, our choice. Source: Clark et al.
    2020, section 3.3 and appendix.
    """

    metric_names = (*Electra.metric_names, "baseline", "generator_reward")
    chosen_terms = ("generator", "baseline")
    real_terms = ("discriminator",)

    def __init__(
        self,
        generator: Generator,
        discriminator: PreTrainedModel,
        *,
        generator_weight: float = 1.0,
        **electra: Any,
    ) -> None:
        trained = language_model(generator, "adversarial")
        super().__init__(trained, discriminator, **electra)
        self.baseline = nn.Linear(int(trained.config.hidden_size), 1)
        initialize_output(self.baseline)
        self.generator_weight = generator_weight

    def forward(self, batch: Batch) -> Losses:
        real, positions = batch["attention_mask"], batch["chosen"]
        chosen, masked = self.hide(batch)
        hidden = rows_at(states(self.generator.base_model, masked, batch), positions)
        logits = vocabulary_logits(self.generator, hidden).float()
        drawn = self.draw_from(logits, batch)
        corruption = self.replaced_by(drawn, chosen, batch)
        scores = detection_scores(self.discriminator, corruption.tokens, batch)
        losses = detection_losses(scores, corruption.replaced)
        rewards = rows_at(losses.detach(), positions)
        baseline_logits = self.baseline(hidden.detach()).squeeze(-1).float()
        allowed = logits / self.temperature
        if self.disallow_correct:
            allowed = allowed.scatter(1, corruption.labels[:, None], float("-inf"))
        log_sampled = functional.log_softmax(allowed, -1).gather(1, drawn.sampled[:, None])
        policy = policy_loss(
            log_sampled.squeeze(1), rewards, -functional.logsigmoid(baseline_logits)
        )
        baseline = functional.binary_cross_entropy_with_logits(
            baseline_logits, torch.exp(-rewards), reduction="sum"
        )
        count, num_real = chosen.sum(), real.sum()
        return Losses(
            {
                "generator": Term(policy, count, self.generator_weight),
                "baseline": Term(baseline, count),
                "discriminator": Term((losses * real).sum(), num_real, self.discriminator_weight),
            },
            corruption.metrics
            | detection_metrics(scores, corruption.replaced, real.bool())
            | {"generator_reward": (rewards.sum(), count)},
        )
