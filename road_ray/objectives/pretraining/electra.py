"""Replaced-token detection: a small generator corrupts tokens, a discriminator finds them."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.models.language_model import detection_scores
from road_ray.objectives.base import Losses, Term
from road_ray.objectives.pretraining.detection import (
    DETECTION_METRICS,
    detection_losses,
    detection_metrics,
)
from road_ray.objectives.pretraining.generator import (
    CorruptingObjective,
    Corruption,
    Generator,
)


class Electra(CorruptingObjective):
    """Generator by masked language modelling and discriminator by detection, trained together.

    The loss is the mean generator loss over chosen positions + ``discriminator_weight`` * the mean
    detection loss over real tokens. Source: Clark et al. 2020, sections 2 and 3.2.
    """

    metric_names: ClassVar[tuple[str, ...]] = (
        "discriminator",
        *CorruptingObjective.metric_names,
        *DETECTION_METRICS,
    )
    chosen_terms: ClassVar[tuple[str, ...]] = ("generator",)
    real_terms: ClassVar[tuple[str, ...]] = ("discriminator",)

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
        counted = self.counted(corruption, batch)
        loss = (detection_losses(scores, corruption.replaced) * counted).sum()
        return Losses(
            corruption.terms
            | {"discriminator": Term(loss, counted.sum(), self.discriminator_weight)},
            corruption.metrics | detection_metrics(scores, corruption.replaced, counted),
        )

    def counted(self, corruption: Corruption, batch: Batch) -> Tensor:
        """Return a mask of the tokens in the mean detection loss, ``[B, L]``: all real ones."""
        return batch["attention_mask"].bool()
