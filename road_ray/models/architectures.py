"""The kinds of encoders: which Hugging Face classes make one, and how it names its parts."""

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
    """The Hugging Face classes of one kind of encoder. Adding one is an entry of ``FAMILIES``, and
    one of ``models/language_model.py``.
    """

    config: type[PreTrainedConfig]
    encoder: type[PreTrainedModel]
    language_model: type[PreTrainedModel]
    detector: type[PreTrainedModel]
    # Where it has no head of its own, detection is the product with one vector, as the paper writes
    # it, and a token classifier of one label on disk.
    detector_options: dict[str, Any]
    encoder_options: dict[str, Any]
    # Where a head that reads the first token keeps the layer before its last: part of the encoder
    # in BERT and ALBERT; ELECTRA's heads have their own.
    pooler: str | None = None

    def stored(self, name: str) -> str:
        """The name that a weight of a head has in a Hugging Face model with that head."""
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
    """The last layer of a detector, onto one number."""
    head: Any = getattr(model, "discriminator_predictions", None)
    output: nn.Linear = head.dense_prediction if head is not None else model.classifier
    return output


def head_dropout(config: PreTrainedConfig) -> float:
    """What a head for classes, tags or choices drops, by the configuration of its family."""
    if config.model_type == "albert":
        return float(config.classifier_dropout_prob)
    chosen = config.classifier_dropout
    return float(config.hidden_dropout_prob if chosen is None else chosen)
