"""Masked language models and discriminators of every encoder family, behind one interface."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import gelu
from transformers import PreTrainedModel

from road_ray.data.batching import Batch, encoder_inputs
from road_ray.errors import ConfigError
from road_ray.models.architectures import input_names
from road_ray.models.config import Tying

# Transform between the last layer and the product with the token embeddings, by family.
_TRANSFORMS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    **dict.fromkeys(
        ("bert", "deberta-v2", "nomic_bert"),
        lambda model, hidden: model.cls.predictions.transform(hidden),
    ),
    **dict.fromkeys(
        ("camembert", "jina_embeddings_v3", "mpnet", "roberta", "xlm-roberta"),
        lambda model, hidden: model.lm_head.layer_norm(gelu(model.lm_head.dense(hidden))),
    ),
    "electra": lambda model, hidden: model.generator_predictions(hidden),
    "distilbert": lambda model, hidden: model.vocab_layer_norm(
        model.activation(model.vocab_transform(hidden))
    ),
    "modernbert": lambda model, hidden: model.head(hidden),
    "albert": lambda model, hidden: model.predictions.LayerNorm(
        model.predictions.activation(model.predictions.dense(hidden))
    ),
}


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


def tie(model: PreTrainedModel) -> None:
    """Use the token embedding as the decoding matrix, unless the model has one of its own."""
    if model.config.tie_word_embeddings:
        decoder(model).weight = model.get_input_embeddings().weight


def share(generator: PreTrainedModel, main: PreTrainedModel, tying: Tying) -> None:
    """Share the weights of ``main`` that ``tying`` names with the language model ``generator``.

    ``embeddings``: token, position and type embeddings with their LayerNorm, as in ELECTRA;
    ``all``: the whole encoder, but not the heads. Source: Clark et al. 2020, section 3.2. Raises
    ``ConfigError`` if the shapes differ.
    """
    if tying == "all":
        shapes = [
            {name: value.shape for name, value in part.base_model.state_dict().items()}
            for part in (generator, main)
        ]
        if shapes[0] != shapes[1]:
            raise ConfigError(
                "generator.tying = all: generator and main encoder differ in size\n"
                "  allowed: one size and one family for both\n"
                "  fix: generator.scale=1.0 generator.depth=1.0, or generator.tying=embeddings"
            )
        setattr(generator, generator.base_model_prefix, main.base_model)
    if tying == "embeddings":
        widths = [part.get_input_embeddings().weight.shape for part in (generator, main)]
        if widths[0] != widths[1]:
            raise ConfigError(
                f"generator.tying = embeddings: tables of {tuple(widths[0])} and "
                f"{tuple(widths[1])}\n  fix: generator.tying=none, or one embedding size for both"
            )
        own, shared = generator.base_model.embeddings, main.base_model.embeddings
        for name, part in list(own.named_children()):
            if not isinstance(part, nn.Dropout):
                setattr(own, name, getattr(shared, name))
    tie(generator)


def share_layers(generator: PreTrainedModel, main: PreTrainedModel, count: int) -> None:
    """Share the lowest ``count`` layers of ``main`` with ``generator``, and the projection of the
    embeddings to the width of the layers (ELECTRA) below them. Source: TEAMS.

    Raises ``ConfigError`` if one has fewer, or the widths differ.
    """
    if not count:
        return
    depths = [len(part.base_model.encoder.layer) for part in (generator, main)]
    widths = [int(part.config.hidden_size) for part in (generator, main)]
    if min(depths) < count or widths[0] != widths[1]:
        raise ConfigError(
            f"objective.options.shared_layers = {count}: the generator has {depths[0]} layers "
            f"of width {widths[0]}, the main encoder {depths[1]} of {widths[1]}\n"
            "  allowed: at most the layers of the smaller, and one width\n"
            "  fix: generator.scale=1.0, with generator.depth for a smaller generator"
        )
    own, shared = (getattr(x.base_model, "embeddings_project", None) for x in (generator, main))
    if own is not None and shared is not None and own.weight.shape == shared.weight.shape:
        generator.base_model.embeddings_project = shared
    for index in range(count):
        generator.base_model.encoder.layer[index] = main.base_model.encoder.layer[index]
