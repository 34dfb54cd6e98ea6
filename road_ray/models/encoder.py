"""Encoders: new Hugging Face models, or loaded from the directory of any stage."""

import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    ElectraForPreTraining,
    PreTrainedConfig,
    PreTrainedModel,
)

from road_ray.data.model_files import locate_model, read_config
from road_ray.data.task_and_dataset import Tag
from road_ray.data.tokenizer import check_vocabulary
from road_ray.errors import CheckpointError, ConfigError
from road_ray.models.architectures import encoder_class, model_class
from road_ray.models.config import EncoderConfig
from road_ray.models.load_weights import ADAPTER, load_stored, merge_adapter, suppress_logging


def hugging_face_config(size: EncoderConfig, vocab_size: int, pad_id: int = 0) -> PreTrainedConfig:
    """Return the Hugging Face configuration of an encoder of ``size``, padded with ``pad_id``.

    Raises ``ConfigError`` if the heads do not divide the width, or if the family has one width and
    ``size`` two.
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
    options: dict[str, Any] = {}
    if size.family != "bert":
        options["embedding_size"] = size.embedding_size
    if size.family == "albert":
        options["hidden_act"] = "gelu"  # exact, as in the other families
    return CONFIG_MAPPING[size.family](
        vocab_size=vocab_size,
        pad_token_id=pad_id,
        num_hidden_layers=size.layers,
        hidden_size=size.hidden_size,
        num_attention_heads=size.heads,
        intermediate_size=size.intermediate_size,
        max_position_embeddings=size.max_length_tokens,
        hidden_dropout_prob=size.dropout,
        attention_probs_dropout_prob=size.dropout,
        initializer_range=size.initializer_std,
        **options,
    )


def scale_encoder(size: EncoderConfig, fraction: float, depth: float = 1.0) -> EncoderConfig:
    """Return the generator's size: width, inner width and heads times ``fraction``, layers times
    ``depth``.

    Source: google electra, configure_pretraining.py and run_pretraining.py.
    """
    head_size = size.hidden_size // size.heads
    heads = max(1, round(size.hidden_size * fraction) // head_size)
    hidden = max(heads, round(size.hidden_size * fraction) // heads * heads)
    layers = max(1, round(size.layers * depth))
    inner = 4 * hidden if hidden != size.hidden_size else size.intermediate_size
    return size.model_copy(
        update={"layers": layers, "hidden_size": hidden, "heads": heads, "intermediate_size": inner}
    )


def size_of(config: PreTrainedConfig, size: EncoderConfig) -> EncoderConfig:
    """Return the sizes of a stored model, and the other settings of ``size``."""
    hidden = int(config.hidden_size)
    sizes = {
        "layers": int(config.num_hidden_layers),
        "hidden_size": hidden,
        "heads": int(config.num_attention_heads),
        "intermediate_size": int(getattr(config, _inner_width(config))),
        "embedding_size": int(getattr(config, "embedding_size", None) or hidden),
        "max_length_tokens": int(config.max_position_embeddings),
    }
    return size.model_copy(update=sizes)


def _config_like(like: PreTrainedConfig, size: EncoderConfig) -> PreTrainedConfig:
    """Return the configuration of a stored model with the layers and widths of ``size``."""
    config = deepcopy(like)
    config.hidden_size, config.num_attention_heads = size.hidden_size, size.heads
    config.num_hidden_layers = size.layers
    setattr(config, _inner_width(config), size.intermediate_size)
    if getattr(config, "head_dim", None) is not None:
        config.head_dim = size.hidden_size // size.heads
    if getattr(config, "num_key_value_heads", None) == like.num_attention_heads:
        config.num_key_value_heads = size.heads
    if getattr(config, "layer_types", None) is not None:
        config.layer_types = config.layer_types[: size.layers]
    return config


def _inner_width(config: PreTrainedConfig) -> str:
    """Return the name of the inner width of the feed-forward blocks."""
    return "intermediate_size" if hasattr(config, "intermediate_size") else "hidden_dim"


def new_language_model(
    size: EncoderConfig, vocab_size: int, like: PreTrainedConfig | None = None, pad_id: int = 0
) -> PreTrainedModel:
    """Return a masked language model with random weights, of the family of ``like`` if given."""
    config = _config_like(like, size) if like else hugging_face_config(size, vocab_size, pad_id)
    encoder_class(config)
    model: PreTrainedModel = MODEL_FOR_MASKED_LM_MAPPING[type(config)](config)
    if like is None:
        initialize(model, size.initializer_std)
    return model


def new_discriminator(
    size: EncoderConfig, vocab_size: int, like: PreTrainedConfig | None = None, pad_id: int = 0
) -> PreTrainedModel:
    """Return an encoder with a head that scores every token, with random weights, of the family of
    ``like`` if given.
    """
    config = _config_like(like, size) if like else hugging_face_config(size, vocab_size, pad_id)
    is_electra = config.model_type == "electra"
    # ELECTRA's own head has none: the default of later heads.
    config.num_labels = 2 if is_electra else 1
    kind = ElectraForPreTraining if is_electra else model_class(Tag(()), config)
    model: Any = kind(config)
    if isinstance(getattr(model, "dropout", None), nn.Dropout):
        model.dropout.p = 0.0  # of a token classifier; ELECTRA's detection head has none
    if like is None:
        initialize(model, size.initializer_std)
    head = model.discriminator_predictions.dense_prediction if is_electra else model.classifier
    initialize_output(head)
    return model


def build_encoder(config: PreTrainedConfig) -> PreTrainedModel:
    """Return an encoder with random weights."""
    kind, options = encoder_class(config)
    encoder: Any = kind(config, **options)
    initialize(encoder, float(config.initializer_range))
    return encoder


def initialize(module: nn.Module, std: float) -> None:
    """Initialize every matrix from a normal truncated at two deviations, every bias to zero.

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
    """Initialize a head's last layer: Glorot-uniform weights, zero bias, as TensorFlow does."""
    bound = math.sqrt(6 / (linear.in_features + linear.out_features))
    nn.init.uniform_(linear.weight, -bound, bound)
    nn.init.zeros_(linear.bias)


def model_directory(init: str, key: str = "init") -> str:
    """Return the model of ``init=``: ``hf/`` of a run, a model directory, what an adapter and its
    base make, or the same hub name.
    """
    place = Path(init).expanduser()
    if (place / ADAPTER).is_file():
        return str(merge_adapter(place.resolve()))
    for candidate in (place / "hf", place):
        if (candidate / "config.json").is_file():
            return str(candidate)
    if not place.exists():
        return init
    remedy = "name a finished run, its hf/ folder, or a checkpoint of it"
    if models := sorted(str(path.parents[1]) for path in place.glob("*/hf/config.json")):
        teachers = place / "teachers.json"
        hint = f" (as teachers: {teachers})" if teachers.is_file() else ""
        remedy = f"name one of the {len(models)} models below it, such as {models[0]}{hint}"
    elif place.is_file():  # such as teachers.json
        remedy = "name one model; `road evaluate` and `road distill` take the mean of several"
    elif (place / "config.resolved.yaml").is_file():
        remedy = "run the command of that run again: it has no model yet, hf/ is written at its end"
    raise CheckpointError(
        f"{key} = {init}: not a model, no config.json there or in hf/\n  fix: {remedy}"
    )


def load_encoder(directory: str) -> PreTrainedModel:
    """Load the encoder of a Hugging Face directory, without heads, of any family.

    Raises ``CheckpointError`` if any encoder weight is missing, unexpected or of another shape: a
    model with some random layers would train without an error.
    """
    place = locate_model(directory)
    with suppress_logging():
        kind, options = encoder_class(read_config(place))
    return load_stored(kind, place, **options)[0]


def load_parts(
    model: PreTrainedModel, directory: Path, key: str, tokenizer_size: int
) -> dict[str, list[str]]:
    """Load the encoder of ``model`` and those of its heads that a directory of the same
    architecture has, such as the discriminator of ELECTRA or the head over the vocabulary; return
    the names of those that were ``kept`` and those that stay ``new``.

    A head is kept if all of its weights are stored in the right shapes. Raises ``ConfigError`` for
    an encoder of another size or form; ``key`` is the configuration key of the directory.
    """
    stored, missing = load_stored(type(model), directory)
    check_vocabulary(stored.config.vocab_size, tokenizer_size, str(directory))
    try:
        for name in ("hidden_act", "is_decoder", "layer_norm_eps", "tie_word_embeddings"):
            if (theirs := getattr(stored.config, name, None)) != getattr(model.config, name, None):
                raise RuntimeError(f"{name} is {theirs} there")
        model.base_model.load_state_dict(stored.base_model.state_dict())
    except RuntimeError as error:
        raise ConfigError(
            f"{key} = {directory}: has another size or form than `encoder` and `generator` give:\n"
            f"  {str(error).splitlines()[-1].strip()}\n"
            "  fix: encoder.family=init takes family and sizes from init and generator.init; or "
            "change encoder.*, generator.scale and generator.depth"
        ) from error
    heads: dict[str, list[str]] = {"kept": [], "new": []}
    for name, part in model.named_children():
        own, theirs = part.state_dict(), stored.get_submodule(name).state_dict()
        if part is model.base_model or not own:
            continue
        fits = all(
            own[key].shape == x.shape and f"{name}.{key}" not in missing
            for key, x in theirs.items()
        )
        if fits:
            part.load_state_dict(theirs)
        heads["kept" if fits else "new"].append(name)
    return heads


def generator_directory(init: str) -> Path:
    """Return the model of ``generator.init=``: that in ``hf/generator`` if a run has one."""
    directory = locate_model(model_directory(init, "generator.init"))
    inner = directory / "generator"
    return inner if (inner / "config.json").is_file() else directory


def load_language_model(model: PreTrainedModel, init: str, tokenizer_size: int) -> None:
    """Load the masked language model of ``generator.init`` into ``model``. Raises
    ``CheckpointError`` if it lacks the head over the vocabulary.
    """
    directory = generator_directory(init)
    if lacking := load_parts(model, directory, "generator.init", tokenizer_size)["new"]:
        raise CheckpointError(
            f"generator.init = {directory}: holds no masked language model; missing "
            f"{', '.join(lacking)}"
        )
