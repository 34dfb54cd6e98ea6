"""Replace MLM: masked language modelling whose masks are samples of a generator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.models.language_model import states, vocabulary_logits
from road_ray.models.weight_tying import tie
from road_ray.objectives.base import Term
from road_ray.objectives.parts.corruption import CorruptingObjective
from road_ray.objectives.parts.generator import Generator


class ReplaceMLM(CorruptingObjective):
    """Predict the originals at chosen positions, where the input has samples, never [MASK].

    What it gains over BERT is what the mismatch of [MASK] costs. Source: Clark et al. 2020, section
    3.5 and table 5; both losses weigh 1, our choice.
    """

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

    def forward(self, batch: Batch) -> dict[str, Term]:
        made = self.corrupted(batch)
        hidden = states(self.encoder, made.tokens, batch)[made.chosen]
        logits = vocabulary_logits(self.model, hidden).float()
        count = torch.tensor(len(made.gold), device=logits.device)
        self.gauges["mlm_accuracy"] = ((logits.detach().argmax(-1) == made.gold).sum(), count)
        loss = functional.cross_entropy(logits, made.gold, reduction="sum")
        return made.terms | {"mlm": Term(loss, count, self.discriminator_weight)}

    def export(self, directory: Path) -> None:
        self.export_pair(directory, self.model)
