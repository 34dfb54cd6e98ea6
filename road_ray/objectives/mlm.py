"""Masked language modelling: the BERT baseline, and the generator's half of ELECTRA."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import ElectraForMaskedLM

from road_ray.data.batches import Batch
from road_ray.models.quick import quicken
from road_ray.models.quiet import hushed
from road_ray.models.terms import Term
from road_ray.objectives.base import Objective
from road_ray.objectives.masking import choose, mask


def vocabulary_logits(model: ElectraForMaskedLM, hidden: Tensor) -> Tensor:
    """``[N, D] -> [N, V]`` through the head whose matrix is the token embedding."""
    state = model.generator_predictions(hidden)
    logits: Tensor = model.generator_lm_head(state)
    return logits


def tie(model: ElectraForMaskedLM, embeddings: nn.Module | None = None) -> None:
    """Make the decoding matrix the token embedding; take over ``embeddings`` when given."""
    if embeddings is not None:
        model.electra.embeddings = embeddings
    model.generator_lm_head.weight = model.electra.embeddings.word_embeddings.weight


class MaskedLanguageModel(Objective):
    """Predict the originals at chosen positions, of which 85% are masked.

    Source: Devlin et al. 2019, with ELECTRA's masking (dynamic, no random tokens) so that the two
    objectives differ in nothing else.
    """

    def __init__(
        self,
        model: ElectraForMaskedLM,
        *,
        special_ids: Sequence[int],
        mask_id: int,
        choose_fraction: float = 0.15,
        mask_fraction: float = 0.85,
    ) -> None:
        super().__init__()
        tie(model)
        quicken(model)
        self.model = model
        self.encoder = model.electra
        self.special_ids = tuple(special_ids)
        self.mask_id = mask_id
        self.choose_fraction = choose_fraction
        self.mask_fraction = mask_fraction

    def forward(self, batch: Batch) -> dict[str, Term]:
        tokens, noise = batch["input_ids"], batch["noise"]
        chosen = choose(
            tokens,
            batch["attention_mask"],
            noise[0],
            special_ids=self.special_ids,
            fraction=self.choose_fraction,
        )
        masked = mask(
            tokens, chosen, noise[1], mask_id=self.mask_id, mask_fraction=self.mask_fraction
        )
        hidden = self.encoder(
            input_ids=masked,
            attention_mask=batch["attention_mask"],
            token_type_ids=batch["token_type_ids"],
        ).last_hidden_state
        logits = vocabulary_logits(self.model, hidden[chosen]).float()
        gold = tokens[chosen]
        count = torch.tensor(len(gold), device=tokens.device)
        self.gauges = {"mlm_accuracy": ((logits.detach().argmax(-1) == gold).sum(), count)}
        return {"mlm": Term(functional.cross_entropy(logits, gold, reduction="sum"), count)}

    def export(self, directory: Path) -> None:
        with hushed():
            self.model.save_pretrained(directory)
