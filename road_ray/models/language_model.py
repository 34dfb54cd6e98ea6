"""Masked language models and detectors of every encoder family, behind one interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from road_ray.data.batching import Batch

# Transform between the last layer and the product with the token embeddings, by family.
_TRANSFORMS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "electra": lambda model, hidden: model.generator_predictions(hidden),
    "bert": lambda model, hidden: model.cls.predictions.transform(hidden),
    "albert": lambda model, hidden: model.predictions.LayerNorm(
        model.predictions.activation(model.predictions.dense(hidden))
    ),
}


def states(encoder: PreTrainedModel, tokens: Tensor, batch: Batch) -> Tensor:
    """Return the last hidden states of ``tokens``, with the padding and segments of ``batch``:
    ``[B, L] -> [B, L, D]``.
    """
    hidden: Tensor = encoder(
        input_ids=tokens,
        attention_mask=batch["attention_mask"],
        token_type_ids=batch["token_type_ids"],
    ).last_hidden_state
    return hidden


def prediction_states(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Return the states that are multiplied with token embeddings: ``[N, D] -> [N, E]``."""
    return _TRANSFORMS[model.config.model_type](model, hidden)


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
    scores: Tensor = model(
        input_ids=tokens,
        attention_mask=batch["attention_mask"],
        token_type_ids=batch["token_type_ids"],
    ).logits.float()
    return scores.squeeze(-1) if scores.dim() == 3 else scores
