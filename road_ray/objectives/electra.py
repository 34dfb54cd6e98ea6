"""Replaced-token detection: a small generator corrupts, the discriminator tells where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from road_ray.data.batches import Batch
from road_ray.models.quick import quicken
from road_ray.models.quiet import hushed
from road_ray.models.terms import Term
from road_ray.objectives.base import Objective
from road_ray.objectives.masking import choose, corrupt, mask
from road_ray.objectives.mlm import tie, vocabulary_logits
from road_ray.objectives.prediction import predict


class Electra(Objective):
    """Generator by masked language modelling and discriminator by detection, trained together.

    The loss is the mean of the generator over chosen positions + ``discriminator_weight`` * the
    mean of the detection over real tokens. The two share all embeddings; no gradient passes
    through the sampling. Source: Clark et al. 2020, sections 2 and 3.2.
    """

    def __init__(
        self,
        generator: ElectraForMaskedLM,
        discriminator: ElectraForPreTraining,
        *,
        special_ids: Sequence[int],
        mask_id: int,
        choose_fraction: float = 0.15,
        mask_fraction: float = 0.85,
        discriminator_weight: float = 50.0,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        tie(generator, discriminator.electra.embeddings)
        quicken(generator)
        quicken(discriminator)
        self.generator = generator
        self.discriminator = discriminator
        self.encoder = discriminator.electra
        self.special_ids = tuple(special_ids)
        self.mask_id = mask_id
        self.choose_fraction = choose_fraction
        self.mask_fraction = mask_fraction
        self.discriminator_weight = discriminator_weight
        self.temperature = temperature

    def forward(self, batch: Batch) -> dict[str, Term]:
        tokens, attention, noise = batch["input_ids"], batch["attention_mask"], batch["noise"]
        chosen = choose(
            tokens, attention, noise[0], special_ids=self.special_ids, fraction=self.choose_fraction
        )
        masked = mask(
            tokens, chosen, noise[1], mask_id=self.mask_id, mask_fraction=self.mask_fraction
        )
        hidden = self.generator.electra(
            input_ids=masked, attention_mask=attention, token_type_ids=batch["token_type_ids"]
        ).last_hidden_state
        gold = tokens[chosen]
        loss, sampled, right = predict(
            vocabulary_logits(self.generator, hidden[chosen]),
            gold,
            noise[2][chosen],
            self.temperature,
        )
        corrupted, replaced = corrupt(tokens, chosen, tokens.masked_scatter(chosen, sampled))
        scores = self.discriminator(
            input_ids=corrupted, attention_mask=attention, token_type_ids=batch["token_type_ids"]
        ).logits.float()
        detection = functional.binary_cross_entropy_with_logits(
            scores, replaced.float(), reduction="none"
        )
        num_chosen = torch.tensor(len(gold), device=tokens.device)
        num_real = attention.sum()
        self.gauges = _gauges(scores, replaced, attention.bool()) | {
            "generator_accuracy": (right, num_chosen)
        }
        return {
            "generator": Term(loss, num_chosen),
            "discriminator": Term(
                (detection * attention).sum(), num_real, self.discriminator_weight
            ),
        }

    def export(self, directory: Path) -> None:
        """The discriminator in ``directory``, the generator in ``directory/generator``."""
        with hushed():
            self.discriminator.save_pretrained(directory)
            self.generator.save_pretrained(directory / "generator")


@torch.no_grad()
def _gauges(scores: Tensor, replaced: Tensor, real: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """Health of the detection over real tokens. The area under the ROC curve is 0.5 at chance and
    rises long before any score crosses 0, where accuracy, recall and precision are taken.
    """
    score, fake = scores[real], replaced[real]
    said = score > 0
    hits = (said & fake).sum()
    num_real = real.sum()
    return {
        "detection_auc": (area_under_curve(score, fake) * num_real, num_real),
        "detection_accuracy": ((said == fake).sum(), num_real),
        "detection_recall": (hits, fake.sum()),
        "detection_precision": (hits, said.sum()),
        "replaced_fraction": (fake.sum(), num_real),
    }


def area_under_curve(scores: Tensor, positive: Tensor) -> Tensor:
    """Chance that a positive scores above a negative: ``[N], [N] -> []``; 0.5 when one kind is
    missing.

    By the rank sum; tied scores are ranked as they come.
    """
    ranks = scores.argsort().argsort().double() + 1
    num_positive = positive.sum().double()
    num_negative = len(scores) - num_positive
    above = ranks[positive].sum() - num_positive * (num_positive + 1) / 2
    pairs = num_positive * num_negative
    return torch.where(pairs > 0, above / pairs.clamp(min=1), 0.5)
