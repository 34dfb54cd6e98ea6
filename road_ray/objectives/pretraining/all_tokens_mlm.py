"""All-Tokens MLM: prediction of every token, with a gate that copies the input."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.models.encoder import initialize_output
from road_ray.models.language_model import states, tie, vocabulary_logits
from road_ray.objectives.base import Losses, Term
from road_ray.objectives.masking import rows_at
from road_ray.objectives.pretraining.generator import CorruptingObjective, Generator


def copy_losses(logits: Tensor, gate: Tensor, labels: Tensor, copied: Tensor) -> Tensor:
    """Return ``-log(D * [copied] + (1 - D) * softmax(logits)[label])``, ``D = sigmoid(gate)``.

    ``[N, V], [N], [N], [N] bool -> [N]``, computed in logarithms, so nothing underflows. The limit
    is 0 for a gate that copies a correct token. Source: Clark et al. 2020, section 3.5.
    """
    log_probability = functional.log_softmax(logits, -1).gather(1, labels[:, None]).squeeze(1)
    predicted = functional.logsigmoid(-gate) + log_probability
    both = torch.logaddexp(functional.logsigmoid(gate), predicted)
    return -torch.where(copied, both, predicted)


class AllTokensMLM(CorruptingObjective):
    """Predicts the originals of all tokens of a corrupted input, most of which can be copied.

    Source: Clark et al. 2020, section 3.5 and table 5; both losses weigh 1, our choice.
    """

    metric_names = ("mlm", *CorruptingObjective.metric_names, "copy_accuracy")
    chosen_terms = ("generator",)
    real_terms = ("mlm",)
    predicts_all = True

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
        self.copy = nn.Linear(int(model.config.hidden_size), 1)
        initialize_output(self.copy)
        self.discriminator_weight = discriminator_weight

    def forward(self, batch: Batch) -> Losses:
        corruption = self.corrupted(batch)
        hidden = rows_at(states(self.encoder, corruption.tokens, batch), batch["real"])
        labels = rows_at(batch["input_ids"], batch["real"])
        copied = ~rows_at(corruption.replaced, batch["real"])
        gate = self.copy(hidden).squeeze(-1).float()
        losses = copy_losses(vocabulary_logits(self.model, hidden).float(), gate, labels, copied)
        count = batch["attention_mask"].sum()
        copy_accuracy = ((gate.detach() > 0) == copied).sum(), count
        return Losses(
            corruption.terms | {"mlm": Term(losses.sum(), count, self.discriminator_weight)},
            corruption.metrics | {"copy_accuracy": copy_accuracy},
        )
