"""The encoder: a class of Hugging Face, made new or loaded from any stage's directory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from road_ray.data.model_files import locate_model, read_config
from road_ray.errors import CheckpointError, ConfigError
from road_ray.models.architectures import FAMILIES, detector_output
from road_ray.models.config import EncoderConfig
from road_ray.models.hf_logging import suppress_logging
from road_ray.models.weights import load_stored


def hugging_face_config(size: EncoderConfig, vocab_size: int, **more: Any) -> PreTrainedConfig:
    """The configuration of that size in Hugging Face's words.

    Raises ``ConfigError`` when the heads do not divide the width, or the family has one width only.
    """
    if size.hidden_size % size.heads:
        raise ConfigError(
            f"encoder.hidden_size = {size.hidden_size} is no multiple of "
            f"encoder.heads = {size.heads}\n  fix: change one; heads of size 64 are usual"
        )
    if size.family == "bert" and size.embedding_size != size.hidden_size:
        raise ConfigError(
            f"encoder.embedding_size = {size.embedding_size}, encoder.hidden_size = "
            f"{size.hidden_size}: BERT has one width for both\n"
            "  fix: make them equal, or encoder.family=electra"
        )
    if size.family != "bert":
        more = {"embedding_size": size.embedding_size} | more
    if size.family == "albert":
        more = {"hidden_act": "gelu"} | more  # as the other families, not its approximation
    return FAMILIES[size.family].config(
        vocab_size=vocab_size,
        num_hidden_layers=size.layers,
        hidden_size=size.hidden_size,
        num_attention_heads=size.heads,
        intermediate_size=size.intermediate_size,
        max_position_embeddings=size.max_length_tokens,
        hidden_dropout_prob=size.dropout,
        attention_probs_dropout_prob=size.attention_dropout,
        initializer_range=size.initializer_std,
        **more,
    )


def scale_encoder(size: EncoderConfig, fraction: float, depth: float = 1.0) -> EncoderConfig:
    """The generator's size: width, inner width and heads times ``fraction``, layers times
    ``depth``.

    Source: google electra, configure_pretraining.py and run_pretraining.py (science: section 2.2).
    """
    head_size = size.hidden_size // size.heads
    heads = max(1, round(size.hidden_size * fraction) // head_size)
    hidden = max(heads, round(size.hidden_size * fraction) // heads * heads)
    layers = max(1, round(size.layers * depth))
    inner = 4 * hidden if hidden != size.hidden_size else size.intermediate_size
    return size.model_copy(
        update={
            "layers": layers,
            "hidden_size": hidden,
            "heads": heads,
            "intermediate_size": inner,
        }
    )


def new_language_model(size: EncoderConfig, vocab_size: int) -> PreTrainedModel:
    """A masked language model with random weights."""
    model: Any = FAMILIES[size.family].language_model(hugging_face_config(size, vocab_size))
    initialize(model, size.initializer_std)
    return model


def new_detector(size: EncoderConfig, vocab_size: int) -> PreTrainedModel:
    """An encoder with a head that scores every token, with random weights."""
    family = FAMILIES[size.family]
    model: Any = family.detector(hugging_face_config(size, vocab_size, **family.detector_options))
    if isinstance(getattr(model, "dropout", None), nn.Dropout):
        model.dropout.p = 0.0  # of a classifier of tokens; ELECTRA's detection has none
    initialize(model, size.initializer_std)
    initialize_output(detector_output(model))
    return model


def build_encoder(config: PreTrainedConfig) -> PreTrainedModel:
    """A new encoder with random weights."""
    family = FAMILIES[config.model_type]
    encoder: Any = family.encoder(config, **family.encoder_options)
    initialize(encoder, float(config.initializer_range))
    return encoder


def initialize(module: nn.Module, std: float) -> None:
    """Truncated normal at two deviations for every matrix, zero for every bias.

    Source: google electra, modeling.py.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
        if isinstance(part, nn.Embedding) and part.padding_idx is not None:
            with torch.no_grad():
                part.weight[part.padding_idx].zero_()


def initialize_output(linear: nn.Linear) -> None:
    """Glorot-uniform weights and zero bias for the last layer of a head (science: section 2.2)."""
    bound = math.sqrt(6 / (linear.in_features + linear.out_features))
    nn.init.uniform_(linear.weight, -bound, bound)
    nn.init.zeros_(linear.bias)


def model_directory(init: str, key: str = "init") -> str:
    """What ``init=`` names: ``hf/`` of a run, a model directory, or a hub name as it is."""
    place = Path(init).expanduser()
    for candidate in (place / "hf", place):
        if (candidate / "config.json").is_file():
            return str(candidate)
    if several := sorted(str(found.parents[1]) for found in place.glob("*/hf/config.json")):
        teachers = place / "teachers.json"
        more = f" (as teachers: {teachers})" if teachers.is_file() else ""
        raise CheckpointError(
            f"{key} = {init}: no model itself; below it there are {len(several)}\n"
            f"  fix: name one of them, such as {several[0]}{more}"
        )
    if (place / "config.resolved.yaml").is_file():
        raise CheckpointError(
            f"{key} = {init}: that run has no model yet (hf/ is written at its end)\n"
            "  fix: repeat the command that began it, which goes on with it, or name one of its "
            "checkpoints"
        )
    if place.exists():
        raise CheckpointError(
            f"{key} = {init}: no config.json there or in hf/; no run and no model directory\n"
            "  fix: name a finished run, its hf/ folder, or a checkpoint of it"
        )
    return init


def load_encoder(directory: str, family: str | None = None) -> PreTrainedModel:
    """The encoder stored in a Hugging Face directory, heads left aside; of any family, or of one.

    Raises ``CheckpointError`` when any encoder weight is missing, surplus or of another shape: a
    model with some random layers trains without complaint and is worth nothing.
    """
    place = locate_model(directory)
    allowed = tuple(FAMILIES) if family is None else (family,)
    with suppress_logging():
        found = read_config(place).model_type
    if found not in allowed:
        raise CheckpointError(
            f"{place}: cannot be loaded as an encoder of the family {' or '.join(allowed)}: its "
            f"config.json says {found!r}\n  fix: name a model of that family"
        )
    encoder: PreTrainedModel = load_stored(
        FAMILIES[found].encoder, place, **FAMILIES[found].encoder_options
    ).model
    return encoder


def load_language_model(model: PreTrainedModel, init: str, tokenizer_size: int) -> None:
    """Fill ``model`` with a stored masked language model: of ``hf/generator`` if ``init`` has one.

    Raises ``CheckpointError`` when any weight is missing or of another shape.
    """
    directory = locate_model(model_directory(init))
    if (directory / "generator" / "config.json").is_file():
        directory = directory / "generator"
    stored, missing = load_stored(type(model), directory)
    check_vocabulary(stored.config.vocab_size, tokenizer_size, str(directory))
    if missing:
        raise CheckpointError(
            f"generator.init = {directory}: holds no masked language model; missing "
            f"{', '.join(missing[:3])}"
        )
    try:
        model.load_state_dict(stored.state_dict())
    except RuntimeError as error:
        raise CheckpointError(
            f"generator.init = {directory}: cannot be loaded into this generator:\n"
            f"  {' '.join(str(error).splitlines()[:2])}\n"
            "  fix: give encoder.*, generator.scale and generator.depth the size of that model"
        ) from error


def check_vocabulary(vocab_size: int, tokenizer_size: int, where: str) -> None:
    """Raises ``CheckpointError`` when token ids would fall outside the embedding table."""
    if tokenizer_size > vocab_size:
        raise CheckpointError(
            f"{where}: the tokenizer has {tokenizer_size} entries, "
            f"the embedding table {vocab_size}\n"
            "  fix: use the tokenizer that the model was trained with"
        )
