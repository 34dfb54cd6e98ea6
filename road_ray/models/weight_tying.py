"""Sharing of weights between generator and main encoder, and between decoder and embeddings."""

from __future__ import annotations

from transformers import PreTrainedModel

from road_ray.errors import ConfigError
from road_ray.models.architectures import FAMILIES
from road_ray.models.config import Tying
from road_ray.models.language_model import decoder

# Modules of the embeddings of every family, besides dropout.
_EMBEDDINGS = ("word_embeddings", "position_embeddings", "token_type_embeddings", "LayerNorm")


def tie(model: PreTrainedModel) -> None:
    """Use the token embedding as the decoding matrix."""
    decoder(model).weight = model.get_input_embeddings().weight


def share_output_bias(generator: PreTrainedModel, main: PreTrainedModel) -> None:
    """Share the bias of the generator's decoder with ``main``, in every module that holds it: BERT,
    ALBERT and RoBERTa have it in the head too.
    """
    own, shared = decoder(main).bias, decoder(generator).bias
    for module in main.modules():
        if getattr(module, "bias", None) is own:
            module.bias = shared


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
        if main.config.model_type not in FAMILIES:  # of one family: both have the same modules
            generator.base_model.embeddings = main.base_model.embeddings
        for name in _EMBEDDINGS if main.config.model_type in FAMILIES else ():
            shared = getattr(main.base_model.embeddings, name)
            setattr(generator.base_model.embeddings, name, shared)
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
    projection = "embeddings_project"
    generator_projection, main_projection = (
        getattr(part.base_model, projection, None) for part in (generator, main)
    )
    if (
        generator_projection is not None
        and main_projection is not None
        and generator_projection.weight.shape == main_projection.weight.shape
    ):
        setattr(generator.base_model, projection, main_projection)
    for index in range(count):
        generator.base_model.encoder.layer[index] = main.base_model.encoder.layer[index]
