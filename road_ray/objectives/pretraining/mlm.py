"""Prediction of original tokens: masked language modelling (the BERT baseline, and the generator's
half of ELECTRA), the same with samples of a generator as masks, and of every token with a gate that
copies the input.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.models.attention import use_cpu_kernels
from road_ray.models.encoder import initialize_output
from road_ray.models.language_model import states, tie, vocabulary_logits
from road_ray.objectives.base import Losses, Metrics, Term
from road_ray.objectives.masking import rows_at
from road_ray.objectives.pretraining.generator import (
    GENERATOR_METRICS,
    CorruptingObjective,
    Generator,
    MaskingObjective,
    Terms,
)


def predict_chosen(
    model: PreTrainedModel, tokens: Tensor, batch: Batch, weight: float = 1.0
) -> tuple[Term, Metrics]:
    """Return the loss of the originals at the chosen positions, and its accuracy."""
    hidden = rows_at(states(model.base_model, tokens, batch), batch["chosen"])
    logits = vocabulary_logits(model, hidden).float()
    labels = rows_at(batch["input_ids"], batch["chosen"])
    count = torch.full((), len(labels), device=labels.device)
    loss = functional.cross_entropy(logits, labels, reduction="sum")
    accuracy = (logits.detach().argmax(-1) == labels).sum(), count
    return Term(loss, count, weight), {"mlm_accuracy": accuracy}


class MaskedLanguageModel(MaskingObjective):
    """Predicts the originals at chosen positions, of which 85% are masked.

    Source: Devlin et al. 2019, with ELECTRA's masking (dynamic, no random tokens) so that the
    two objectives differ in nothing else.
    """

    terms: ClassVar[Terms] = {"mlm": "chosen"}
    metric_names = (*terms, "mlm_accuracy")

    def __init__(self, model: PreTrainedModel, **masking: Any) -> None:
        super().__init__(**masking)
        tie(model)
        use_cpu_kernels(model)
        self.model = model
        self.encoder = model.base_model

    def forward(self, batch: Batch) -> Losses:
        term, metrics = predict_chosen(self.model, self.hide(batch)[1], batch)
        return Losses({"mlm": term}, metrics)


class ReplaceMLM(CorruptingObjective):
    """Predicts the originals at chosen positions, where the input has samples, never [MASK].

    Its gain over BERT is the cost of the [MASK] mismatch. Source: Clark et al. 2020, section
    3.5 and table 5; both losses weigh 1, our choice.
    """

    terms: ClassVar[Terms] = {"generator": "chosen", "mlm": "chosen"}
    metric_names: ClassVar = (*terms, *GENERATOR_METRICS, "mlm_accuracy")

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
        weight = self.discriminator_weight
        term, metrics = predict_chosen(self.model, corruption.tokens, batch, weight)
        return Losses(corruption.terms | {"mlm": term}, corruption.metrics | metrics)


class AllTokensMLM(ReplaceMLM):
    """Predicts the originals of all tokens of a corrupted input, most of which can be copied.

    Source: Clark et al. 2020, section 3.5 and table 5; both losses weigh 1, our choice.
    """

    terms: ClassVar[Terms] = {"generator": "chosen", "mlm": "real"}
    metric_names = (*terms, *GENERATOR_METRICS, "copy_accuracy")
    predicts_all = True

    def __init__(self, generator: Generator, model: PreTrainedModel, **options: Any) -> None:
        super().__init__(generator, model, **options)
        self.copy = nn.Linear(int(model.config.hidden_size), 1)
        initialize_output(self.copy)

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


def copy_losses(logits: Tensor, gate: Tensor, labels: Tensor, copied: Tensor) -> Tensor:
    """Return ``-log(D * [copied] + (1 - D) * softmax(logits)[label])``, ``D = sigmoid(gate)``.

    ``[N, V], [N], [N], [N] bool -> [N]``, computed in logarithms, so nothing underflows. The limit
    is 0 for a gate that copies a correct token. Source: Clark et al. 2020, section 3.5.
    """
    log_probability = functional.log_softmax(logits, -1).gather(1, labels[:, None]).squeeze(1)
    predicted = functional.logsigmoid(-gate) + log_probability
    both = torch.logaddexp(functional.logsigmoid(gate), predicted)
    return -torch.where(copied, both, predicted)
