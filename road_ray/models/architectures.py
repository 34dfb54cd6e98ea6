"""Encoder families: the Hugging Face classes of each, and the inputs of their models.

``FAMILIES`` are those that ``road pretrain`` can build with random weights, with the initialization
of ELECTRA. Transformers' Auto classes have the classes of all families.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING,
    MODEL_MAPPING,
    AutoModel,
    ElectraForPreTraining,
    PreTrainedConfig,
    PreTrainedModel,
)

from road_ray.data.batching import INPUTS
from road_ray.errors import CheckpointError

FAMILIES = ("electra", "bert", "albert")
_NO_POOLER = {"add_pooling_layer": False}


@dataclass(frozen=True)
class Family:
    """The Hugging Face classes of one encoder family."""

    encoder: type[PreTrainedModel]
    language_model: Any
    # A family without a detection head uses a token classifier with one label; None without one.
    discriminator: Any
    encoder_options: dict[str, Any]


def family_of(config: PreTrainedConfig) -> Family:
    """Return the family of a configuration, from transformers' Auto classes.

    Raises ``CheckpointError`` for an architecture that is not an encoder, or without a model class
    in transformers.
    """
    encoder = _class_of(MODEL_MAPPING, config)
    language_model = _class_of(MODEL_FOR_MASKED_LM_MAPPING, config)
    if encoder is None or language_model is None or config.is_encoder_decoder:
        raise CheckpointError(
            f"{config.name_or_path or 'config.json'}: {config.model_type!r} is no encoder of "
            "transformers\n  allowed: encoders, such as bert, electra, roberta, deberta-v2, "
            "modernbert, distilbert and mpnet\n  fix: name a model of such an architecture"
        )
    discriminator = _class_of(MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING, config)
    return Family(
        encoder,
        language_model,
        ElectraForPreTraining if config.model_type == "electra" else discriminator,
        _NO_POOLER if "add_pooling_layer" in _parameters(encoder.__init__) else {},
    )


def is_decoder(config: PreTrainedConfig) -> bool:
    """Return True for a model that predicts the next token, such as GPT-2, Llama and Qwen. Its head
    reads the last token of a row.
    """
    kind = type(config)
    return kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING


def _class_of(mapping: Any, config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    entry: Any = mapping.get(type(config), None)
    chosen: type[PreTrainedModel] | None = entry[0] if isinstance(entry, tuple) else entry
    return chosen


@lru_cache
def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def input_names(model: PreTrainedModel) -> tuple[str, ...]:
    """Return the names of the inputs that a model takes: segments only if it embeds them."""
    segments = "token_type_ids" in _parameters(type(getattr(model, "_orig_mod", model)).forward)
    embedded = getattr(model.config, "type_vocab_size", 0) > 1
    return INPUTS if segments and embedded else INPUTS[:2]


def longest_row(encoder: PreTrainedModel) -> int:
    """Return the length of the longest row that an encoder reads, in tokens.

    RoBERTa and MPNet count positions from behind the padding index, so they read fewer tokens than
    their position table has rows.
    """
    positions = int(encoder.config.max_position_embeddings)
    for name, module in encoder.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return positions - (0 if module.padding_idx is None else module.padding_idx + 1)
    return positions


def longest_row_of(config: PreTrainedConfig) -> int:
    """Return ``longest_row`` of the encoder that a configuration describes, without its weights."""
    with torch.device("meta"):
        return longest_row(AutoModel.from_config(config))
