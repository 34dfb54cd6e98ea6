"""Distillation from a teacher's hidden states and attention maps, besides its logits."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from road_ray.data.batching import Batch
from road_ray.distillation.hidden_state_matching import StateMatching
from road_ray.models.multitask import MultitaskModel
from road_ray.objectives.base import Losses, Term
from road_ray.objectives.distilled import Distilled


class IntermediateDistilled(Distilled):
    """``Distilled`` with ``StateMatching`` of its encoder; projections are not exported."""

    def __init__(self, model: MultitaskModel, matching: StateMatching, **distilled: Any) -> None:
        super().__init__(model, **distilled)
        self.matching = matching

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        weights = {
            "hidden": self.matching.hidden_weight,
            "attention": self.matching.attention_weight,
        }
        tokens = batch["attention_mask"].bool().sum()
        matched = {f"{batch['dataset']}_{name}": tokens for name, used in weights.items() if used}
        return super().counts(batch) | matched

    def forward(self, batch: Batch) -> Losses:
        output = self.model.states(batch, **self.matching.outputs)
        logits, further = self.read(output.last_hidden_state, batch)
        losses = self.losses(logits, batch)
        terms = losses.terms | further
        count = batch["attention_mask"].bool().sum()
        for name, (total, weight) in self.matching(output, batch).items():
            terms[f"{batch['dataset']}_{name}"] = Term(total, count, weight)
        return Losses(terms, losses.metrics)
