"""Encoder families: the Hugging Face classes of each, and the names of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    AlbertForTokenClassification,
    AlbertModel,
    BertConfig,
    BertForMaskedLM,
    BertForTokenClassification,
    BertModel,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ElectraModel,
    PreTrainedConfig,
    PreTrainedModel,
)


@dataclass(frozen=True)
class Family:
    """The Hugging Face classes of one encoder family. To add one, enter it in ``FAMILIES`` and in
    ``models/language_model.py``.
    """

    config: type[PreTrainedConfig]
    encoder: type[PreTrainedModel]
    language_model: type[PreTrainedModel]
    detector: type[PreTrainedModel]
    # A family without a detection head uses a token classifier with one label.
    detector_options: dict[str, Any]
    encoder_options: dict[str, Any]
    # Stored name of the dense layer below a sentence head: BERT and ALBERT count it to the encoder,
    # ELECTRA to the head (None).
    pooler: str | None = None

    def stored(self, name: str) -> str:
        """Return the name of a head's weight in a Hugging Face model with that head."""
        if self.pooler is None or not name.startswith("pooler."):
            return name
        return f"{self.pooler}.{name.removeprefix('pooler.')}"


_ONE_LABEL = {"num_labels": 1}
_NO_POOLER = {"add_pooling_layer": False}
FAMILIES: dict[str, Family] = {
    "electra": Family(
        ElectraConfig, ElectraModel, ElectraForMaskedLM, ElectraForPreTraining, {}, {}
    ),
    "bert": Family(
        *(BertConfig, BertModel, BertForMaskedLM, BertForTokenClassification),
        _ONE_LABEL,
        _NO_POOLER,
        "bert.pooler.dense",
    ),
    "albert": Family(
        *(AlbertConfig, AlbertModel, AlbertForMaskedLM, AlbertForTokenClassification),
        _ONE_LABEL,
        _NO_POOLER,
        "albert.pooler",
    ),
}


def detector_output(model: PreTrainedModel) -> nn.Linear:
    """Return the last layer of a detector, which has one output."""
    head: Any = getattr(model, "discriminator_predictions", None)
    output: nn.Linear = head.dense_prediction if head is not None else model.classifier
    return output


def head_dropout(config: PreTrainedConfig) -> float:
    """Return the dropout probability of a head for classes, tags or choices."""
    if config.model_type == "albert":
        return float(config.classifier_dropout_prob)
    chosen = config.classifier_dropout
    return float(config.hidden_dropout_prob if chosen is None else chosen)
