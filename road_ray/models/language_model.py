"""Masked language models and detectors of every encoder family, called alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from road_ray.data.batching import Batch

# What stands between the last layer and the product with the token embeddings, by family.
_TRANSFORMS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "electra": lambda model, hidden: model.generator_predictions(hidden),
    "bert": lambda model, hidden: model.cls.predictions.transform(hidden),
    "albert": lambda model, hidden: model.predictions.LayerNorm(
        model.predictions.activation(model.predictions.dense(hidden))
    ),
}


def states(encoder: PreTrainedModel, tokens: Tensor, batch: Batch) -> Tensor:
    """Last hidden states of ``tokens`` with the padding and segments of ``batch``:
    ``[B, L] -> [B, L, D]``.
    """
    hidden: Tensor = encoder(
        input_ids=tokens,
        attention_mask=batch["attention_mask"],
        token_type_ids=batch["token_type_ids"],
    ).last_hidden_state
    return hidden


def prediction_states(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """What is compared with token embeddings: ``[N, D] -> [N, E]``."""
    return _TRANSFORMS[model.config.model_type](model, hidden)


def vocabulary_logits(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """``[N, D] -> [N, V]`` through the head whose matrix is the token embedding."""
    logits: Tensor = decoder(model)(prediction_states(model, hidden))
    return logits


def decoder(model: PreTrainedModel) -> Any:
    """The linear layer onto the vocabulary."""
    return model.get_output_embeddings()


def detection_scores(model: PreTrainedModel, tokens: Tensor, batch: Batch) -> Tensor:
    """Logits that a token is replaced, in fp32: ``[B, L] -> [B, L]``."""
    scores: Tensor = model(
        input_ids=tokens,
        attention_mask=batch["attention_mask"],
        token_type_ids=batch["token_type_ids"],
    ).logits.float()
    return scores.squeeze(-1) if scores.dim() == 3 else scores
