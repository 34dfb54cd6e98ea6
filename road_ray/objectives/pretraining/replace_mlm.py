"""Replace MLM: masked language modelling whose masks are samples of a generator."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.models.language_model import states, tie, vocabulary_logits
from road_ray.objectives.base import Losses, Term
from road_ray.objectives.masking import rows_at
from road_ray.objectives.pretraining.generator import CorruptingObjective, Generator


class ReplaceMLM(CorruptingObjective):
    """Predicts the originals at chosen positions, where the input has samples, never [MASK].

    Its gain over BERT is the cost of the [MASK] mismatch. Source: Clark et al. 2020, section
    3.5 and table 5; both losses weigh 1, our choice.
    """

    metric_names = ("mlm", *CorruptingObjective.metric_names, "mlm_accuracy")
    chosen_terms = ("generator", "mlm")

    def __init__(
        self,
        generator: Generator,
        model: PreTrainedModel,
        *,
        discriminator_weight: float = 1.0,
        **corruption: Any,
    ) -> None:
        super().__init__(generator, model, **corruption)
        tie(model)
        self.model = model
        self.discriminator_weight = discriminator_weight

    def forward(self, batch: Batch) -> Losses:
        corruption = self.corrupted(batch)
        hidden = rows_at(states(self.encoder, corruption.tokens, batch), batch["chosen"])
        logits = vocabulary_logits(self.model, hidden).float()
        count = torch.full((), len(corruption.labels), device=logits.device)
        loss = functional.cross_entropy(logits, corruption.labels, reduction="sum")
        accuracy = (logits.detach().argmax(-1) == corruption.labels).sum(), count
        return Losses(
            corruption.terms | {"mlm": Term(loss, count, self.discriminator_weight)},
            corruption.metrics | {"mlm_accuracy": accuracy},
        )
