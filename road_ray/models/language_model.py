"""Masked language models and detectors of every encoder family, behind one interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import gelu
from transformers import PreTrainedModel

from road_ray.data.batching import Batch, encoder_inputs
from road_ray.errors import ConfigError
from road_ray.models.architectures import input_names

# Transform between the last layer and the product with the token embeddings, by family.
_TRANSFORMS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "electra": lambda model, hidden: model.generator_predictions(hidden),
    "bert": lambda model, hidden: model.cls.predictions.transform(hidden),
    "roberta": lambda model, hidden: _language_model_head(model.lm_head, hidden),
    "xlm-roberta": lambda model, hidden: _language_model_head(model.lm_head, hidden),
    "camembert": lambda model, hidden: _language_model_head(model.lm_head, hidden),
    "mpnet": lambda model, hidden: _language_model_head(model.lm_head, hidden),
    "deberta-v2": lambda model, hidden: model.cls.predictions.transform(hidden),
    "distilbert": lambda model, hidden: model.vocab_layer_norm(
        model.activation(model.vocab_transform(hidden))
    ),
    "modernbert": lambda model, hidden: model.head(hidden),
    "albert": lambda model, hidden: model.predictions.LayerNorm(
        model.predictions.activation(model.predictions.dense(hidden))
    ),
}


def _language_model_head(head: Any, hidden: Tensor) -> Tensor:
    normalized: Tensor = head.layer_norm(gelu(head.dense(hidden)))
    return normalized


def states(encoder: PreTrainedModel, tokens: Tensor, batch: Batch) -> Tensor:
    """Return the last hidden states of ``tokens``, with the padding and segments of ``batch``:
    ``[B, L] -> [B, L, D]``.
    """
    hidden: Tensor = encoder(**_inputs(encoder, tokens, batch)).last_hidden_state
    return hidden


def _inputs(model: PreTrainedModel, tokens: Tensor, batch: Batch) -> dict[str, Tensor]:
    return encoder_inputs({**batch, "input_ids": tokens}, input_names(model))


def prediction_states(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Return the states that are multiplied with token embeddings: ``[N, D] -> [N, E]``."""
    kind = model.config.model_type
    if kind not in _TRANSFORMS:
        raise ConfigError(
            f"encoder.family = init: no objective can continue the pre-training of {kind!r}\n"
            f"  allowed: {', '.join(sorted(_TRANSFORMS))}\n  fix: name a model of one of these"
        )
    return _TRANSFORMS[kind](model, hidden)


def vocabulary_logits(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Return the logits of the tied head: ``[N, D] -> [N, V]``."""
    logits: Tensor = decoder(model)(prediction_states(model, hidden))
    return logits


def decoder(model: PreTrainedModel) -> nn.Linear:
    """Return the linear layer onto the vocabulary."""
    output: nn.Linear = model.get_output_embeddings()
    return output


def detection_scores(model: PreTrainedModel, tokens: Tensor, batch: Batch) -> Tensor:
    """Return the logits that tokens are replaced, in fp32: ``[B, L] -> [B, L]``."""
    scores: Tensor = model(**_inputs(model, tokens, batch)).logits.float()
    return scores.squeeze(-1) if scores.dim() == 3 else scores
