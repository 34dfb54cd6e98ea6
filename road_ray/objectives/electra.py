"""Replaced-token detection: a small generator corrupts, the discriminator tells where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.models.language_model import detection_scores
from road_ray.objectives.base import Term
from road_ray.objectives.parts.corruption import CorruptingObjective
from road_ray.objectives.parts.detection import detection_gauges, detection_losses
from road_ray.objectives.parts.generator import Generator


class Electra(CorruptingObjective):
    """Generator by masked language modelling and discriminator by detection, trained together.

    The loss is the mean of the generator over chosen positions + ``discriminator_weight`` * the
    mean of the detection over real tokens. Source: Clark et al. 2020, sections 2 and 3.2.
    """

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

    def forward(self, batch: Batch) -> dict[str, Term]:
        made = self.corrupted(batch)
        scores = detection_scores(self.discriminator, made.tokens, batch)
        real = batch["attention_mask"]
        detection = (detection_losses(scores, made.replaced) * real).sum()
        self.gauges |= detection_gauges(scores, made.replaced, real.bool())
        return made.terms | {
            "discriminator": Term(detection, real.sum(), self.discriminator_weight)
        }

    def export(self, directory: Path) -> None:
        self.export_pair(directory, self.discriminator)
