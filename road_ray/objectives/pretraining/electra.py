"""Replaced-token detection: a small generator corrupts tokens, a discriminator finds them. The
generator may also learn to fool it.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.models.encoder import initialize_output
from road_ray.models.language_model import detection_scores
from road_ray.objectives.base import Losses, Metrics, Term
from road_ray.objectives.masking import rows_at
from road_ray.objectives.pretraining.generator import (
    GENERATOR_METRICS,
    CorruptingObjective,
    Generator,
    Terms,
)

DETECTION_METRICS = tuple(
    f"detection_{name}" for name in ("auc", "accuracy", "recall", "precision", "specificity")
)
"""Names of the metrics that ``detection_metrics`` returns."""


def detection_losses(scores: Tensor, replaced: Tensor) -> Tensor:
    """Return the cross-entropy of each token, ``[B, L]``; the label is 1 where it is replaced."""
    return functional.binary_cross_entropy_with_logits(scores, replaced.float(), reduction="none")


@torch.no_grad()
def detection_metrics(scores: Tensor, replaced: Tensor, counted: Tensor) -> Metrics:
    """Return the metrics of the detection over ``counted`` tokens: ``[B, L]`` each.

    The area under the ROC curve is 0.5 at chance and rises long before any score crosses 0, the
    threshold of accuracy, recall and precision. Recall is the accuracy on replaced tokens,
    ``specificity`` that on originals.
    """
    predicted = scores > 0
    fake, original = counted & replaced, counted & ~replaced
    hits, rejected, count = (predicted & fake).sum(), (~predicted & original).sum(), counted.sum()
    return {
        "detection_auc": (area_under_curve(scores, replaced, counted) * count, count),
        "detection_accuracy": (hits + rejected, count),
        "detection_recall": (hits, fake.sum()),
        "detection_precision": (hits, (predicted & counted).sum()),
        "detection_specificity": (rejected, original.sum()),
    }


def area_under_curve(scores: Tensor, positive: Tensor, counted: Tensor) -> Tensor:
    """Return the probability that a positive scores above a negative, among the ``counted``:
    ``[B, L], [B, L], [B, L] -> []``.

    It is 0.5 if one class is missing. It is computed by the rank sum; ties are ranked in order.
    """
    # The others get the highest ranks, which are not read.
    order = scores.masked_fill(~counted, torch.inf).flatten().argsort(stable=True)
    ranks = torch.empty_like(order)
    ranks.scatter_(0, order, torch.arange(1, len(order) + 1, device=order.device))
    positive = (positive & counted).flatten()
    num_positive = positive.sum()  # whole numbers: exact on every device
    num_negative = counted.sum() - num_positive
    above = (ranks * positive).sum() - num_positive * (num_positive + 1) // 2
    pairs = num_positive * num_negative
    return torch.where(pairs > 0, above / pairs.clamp(min=1), 0.5)


class Electra(CorruptingObjective):
    """Generator by masked language modelling and discriminator by detection, trained together.

    The loss is the mean generator loss over chosen positions + ``discriminator_weight`` * the mean
    detection loss over real tokens. Source: Clark et al. 2020, sections 2 and 3.2.
    """

    terms: ClassVar[Terms] = {"generator": "chosen", "discriminator": "real"}
    metric_names: ClassVar = (*terms, *GENERATOR_METRICS, *DETECTION_METRICS)

    def __init__(
        self,
        generator: Generator,
        discriminator: PreTrainedModel,
        *,
        discriminator_weight: float = 50.0,
        **corruption: Any,
    ) -> None:
        super().__init__(generator, discriminator, **corruption)
        self.discriminator = discriminator
        self.discriminator_weight = discriminator_weight

    def forward(self, batch: Batch) -> Losses:
        corruption = self.corrupted(batch)
        scores = detection_scores(self.discriminator, corruption.tokens, batch)
        is_chosen = self.terms["discriminator"] == "chosen"
        counted = corruption.chosen if is_chosen else batch["attention_mask"].bool()
        loss = (detection_losses(scores, corruption.replaced) * counted).sum()
        return Losses(
            corruption.terms
            | {"discriminator": Term(loss, counted.sum(), self.discriminator_weight)},
            corruption.metrics | detection_metrics(scores, corruption.replaced, counted),
        )


class ElectraMasked(Electra):
    """``Electra`` with a detection loss that is the mean over chosen positions only.

    Its difference from ELECTRA measures the gain of learning from all tokens. Source: Clark et al.
    2020, section 3.5 and table 5 ("ELECTRA 15%"); the weight is ELECTRA's, our choice.
    """

    terms: ClassVar[Terms] = {"generator": "chosen", "discriminator": "chosen"}


class Adversarial(Electra):
    """``Electra`` with a generator that maximises the discriminator's loss at chosen positions.

    The generator is trained by REINFORCE with one sample. The baseline ``-log sigmoid(w h)`` of the
    generator's states is trained by cross-entropy with the probability that the discriminator gives
    the correct answer; it sends no gradient into the generator, our choice. Source: Clark et al.
    2020, section 3.3 and appendix.
    """

    terms: ClassVar[Terms] = {**Electra.terms, "baseline": "chosen"}
    metric_names = (*Electra.metric_names, "baseline", "generator_reward")
    generator_at = "chosen"

    def __init__(
        self,
        generator: PreTrainedModel,
        discriminator: PreTrainedModel,
        *,
        generator_weight: float = 1.0,
        **electra: Any,
    ) -> None:
        super().__init__(generator, discriminator, **electra)
        self.baseline = nn.Linear(int(generator.config.hidden_size), 1)
        initialize_output(self.baseline)
        self.generator_weight = generator_weight

    def forward(self, batch: Batch) -> Losses:
        real, positions = batch["attention_mask"], batch["chosen"]
        corruption = self.corrupted(batch)
        scores = detection_scores(self.discriminator, corruption.tokens, batch)
        losses = detection_losses(scores, corruption.replaced)
        rewards = rows_at(losses.detach(), positions)
        baseline_logits = self.baseline(corruption.hidden.detach()).squeeze(-1).float()
        allowed = corruption.logits.float() / self.temperature
        if self.disallow_correct:
            allowed = allowed.scatter(1, corruption.labels[:, None], float("-inf"))
        log_probabilities = functional.log_softmax(allowed, -1)
        log_sampled = log_probabilities.gather(1, corruption.sampled[:, None]).squeeze(1)
        # Its gradient is that of the negative expected reward.
        advantage = (rewards + functional.logsigmoid(baseline_logits)).detach()
        policy = -(log_sampled * advantage).sum()
        baseline = functional.binary_cross_entropy_with_logits(
            baseline_logits, torch.exp(-rewards), reduction="sum"
        )
        count, num_real = corruption.chosen.sum(), real.sum()
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
