"""The kinds of encoders: which Hugging Face classes make one."""

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
    one of ``models/language.py``.
    """

    config: type[PreTrainedConfig]
    encoder: type[PreTrainedModel]
    language_model: type[PreTrainedModel]
    detector: type[PreTrainedModel]
    # Where it has no head of its own, detection is the product with one vector, as the paper writes
    # it, and a token classifier of one label on disk.
    detector_options: dict[str, Any]
    encoder_options: dict[str, Any]


_ONE_LABEL = {"num_labels": 1}
_NO_POOLER = {"add_pooling_layer": False}
FAMILIES: dict[str, Family] = {
    "electra": Family(
        ElectraConfig, ElectraModel, ElectraForMaskedLM, ElectraForPreTraining, {}, {}
    ),
    "bert": Family(
        *(BertConfig, BertModel, BertForMaskedLM, BertForTokenClassification),
        _ONE_LABEL | {"classifier_dropout": 0.0},
        _NO_POOLER,
    ),
    "albert": Family(
        *(AlbertConfig, AlbertModel, AlbertForMaskedLM, AlbertForTokenClassification),
        _ONE_LABEL | {"classifier_dropout_prob": 0.0},
        _NO_POOLER,
    ),
}


def detector_output(model: PreTrainedModel) -> nn.Linear:
    """The last layer of a detector, onto one number."""
    head: Any = getattr(model, "discriminator_predictions", None)
    output: nn.Linear = head.dense_prediction if head is not None else model.classifier
    return output
