"""Floating-point operations of a pre-training, computed from its configuration."""

from __future__ import annotations

from dataclasses import dataclass

from road_ray.models.config import EncoderConfig
from road_ray.models.encoder import scale_encoder
from road_ray.models.performance.encoder_flops import (
    choice_head_flops,
    detection_head_flops,
    encoder_flops,
    infer_flops,
    layer_flops,
    layer_parameters,
    word_head_flops,
)
from road_ray.objectives.pretraining.registry import models_of, objective_class, options_of
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.pretrain import phases


@dataclass(frozen=True)
class Cost:
    """Floating-point operations of a pre-training."""

    train_paper: float  # the whole run, by the rules of the ELECTRA paper
    train_6nd: float  # the whole run: 6 a weight of the layers and a token, both networks
    step_paper: float  # the mean of all steps
    infer_paper: float  # one row of the last phase through the encoder that is kept
    tokens: float  # rows taken as full


def cost(config: PretrainConfig, vocab_size: int | None = None) -> Cost:
    """Return the cost of a configuration, for rows of the maximum length of their phase.

    Raises ``ConfigError`` if ``training.steps`` is missing.
    """
    if config.encoder.family == "init":
        config = config.model_copy(update={"encoder": _size_of_init(config)})
    vocab_size = vocab_size or (config.data.vocab_size if not config.data.tokenizer else 30_522)
    small = scale_encoder(config.encoder, config.generator.scale, config.generator.depth)
    if config.encoder.family == "init" and config.generator.init:
        small = _size_of_generator(config.generator.init, small)
    generates = "generator" in models_of(objective_class(config.objective.name))
    generates = generates and config.generator.kind == "model"
    weights = config.encoder.layers * layer_parameters(config.encoder)
    weights += small.layers * layer_parameters(small) if generates else 0
    train = tokens = 0.0
    for phase in phases(config):
        once = _forward_flops(config, small, vocab_size, phase.max_length_tokens, generates)
        rows = phase.batch_size * config.training.passes
        train += 2 * rows * once * phase.steps
        tokens += rows * phase.max_length_tokens * phase.steps
    return Cost(
        train_paper=train,
        train_6nd=6 * weights * tokens,
        step_paper=train / phase.end,
        infer_paper=infer_flops(config.encoder, vocab_size, config.data.max_length_tokens),
        tokens=tokens,
    )


def _size_of_init(config: PretrainConfig) -> EncoderConfig:
    from road_ray.models.encoder import size_of
    from road_ray.recipes.pretraining.build_objective import stored_config

    stored = stored_config(config.encoder, config.init)
    assert stored is not None
    return size_of(stored, config.encoder)


def _size_of_generator(init: str, size: EncoderConfig) -> EncoderConfig:
    from road_ray.models.encoder import size_of
    from road_ray.recipes.pretraining.build_objective import config_at

    return size_of(config_at(init, "generator.init"), size)


def _forward_flops(
    config: PretrainConfig, small: EncoderConfig, vocab_size: int, length: int, generates: bool
) -> float:
    """Return the forward operations of one row through both networks. A frozen generator counts
    half, because it has no backward pass.
    """
    once = encoder_flops(config.encoder, vocab_size, length)
    once += _head_flops(config, small, vocab_size, length)
    if generates:
        generator = encoder_flops(small, vocab_size, length)
        generator += word_head_flops(small, vocab_size, length)
        once += generator / 2 if config.generator.frozen else generator
    return once


def _head_flops(
    config: PretrainConfig, small: EncoderConfig, vocab_size: int, length: int
) -> float:
    """Return the operations of the main encoder's heads; the generator's is counted apart."""
    size, name = config.encoder, config.objective.name
    defaults = options_of(objective_class(name))
    candidates = int(config.objective.options.get("candidates", defaults.get("candidates", 1)))
    detection = detection_head_flops(size, length)
    match name:
        case "mlm" | "replace_mlm":
            return word_head_flops(size, vocab_size, length)
        case "all_tokens_mlm":
            return word_head_flops(size, vocab_size, length, 1.0)
        case "mc_bert":
            # Its generator samples at every position, not only at the chosen ones.
            everywhere = word_head_flops(small, vocab_size, length, 1.0)
            remaining = 1.0 - word_head_flops(small, vocab_size, length) / everywhere
            generator = word_head_flops(small, vocab_size, length, remaining)
            return generator + choice_head_flops(size, candidates, length, 1.0)
        case "teams":
            choice = choice_head_flops(size, candidates, length, 0.15625)
            return layer_flops(size, length) + detection + choice
    return detection
