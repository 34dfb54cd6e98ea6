"""Masked language modelling: the BERT baseline, and the generator's half of ELECTRA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.models.cpu_kernels import use_cpu_kernels
from road_ray.models.language_model import states, tie, vocabulary_logits
from road_ray.models.load_weights import suppress_logging
from road_ray.objectives.base import Losses, Term
from road_ray.objectives.masking import rows_at
from road_ray.objectives.pretraining.generator import MaskingObjective


class MaskedLanguageModel(MaskingObjective):
    """Predicts the originals at chosen positions, of which 85% are masked.

    Source: Devlin et al. 2019, with ELECTRA's masking (dynamic, no random tokens) so that the
    two objectives differ in nothing else.
    """

    metric_names = ("mlm", "mlm_accuracy")
    chosen_terms = ("mlm",)

    def __init__(self, model: PreTrainedModel, **masking: Any) -> None:
        super().__init__(**masking)
        tie(model)
        use_cpu_kernels(model)
        self.model = model
        self.encoder = model.base_model

    def forward(self, batch: Batch) -> Losses:
        _, masked = self.hide(batch)
        hidden = rows_at(states(self.encoder, masked, batch), batch["chosen"])
        logits = vocabulary_logits(self.model, hidden).float()
        labels = rows_at(batch["input_ids"], batch["chosen"])
        count = torch.full((), len(labels), device=labels.device)
        loss = functional.cross_entropy(logits, labels, reduction="sum")
        accuracy = (logits.detach().argmax(-1) == labels).sum(), count
        return Losses({"mlm": Term(loss, count)}, {"mlm_accuracy": accuracy})

    def export(self, directory: Path) -> None:
        with suppress_logging():
            self.model.save_pretrained(directory)
