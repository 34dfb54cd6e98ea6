"""Floating-point operations of a pre-training by the rules of the ELECTRA paper."""

from __future__ import annotations

from road_ray.models.config import EncoderConfig
from road_ray.models.encoder import scale_encoder, size_of
from road_ray.models.performance.encoder_flops import (
    choice_head_flops,
    detection_head_flops,
    encoder_flops,
    layer_flops,
    word_head_flops,
)
from road_ray.objectives.pretraining.registry import models_of, objective_class, options_of
from road_ray.recipes.pretraining.build_objective import config_at, stored_config
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.pretrain import phases


def flops_per_step(config: PretrainConfig) -> float:
    """Return the operations of a step, the mean over all steps, for rows of the maximum length of
    their phase. Backward passes count as much as forward passes.

    Raises ``ConfigError`` if ``training.steps`` is missing.
    """
    stored = stored_config(config.encoder, config.init)
    size = config.encoder if stored is None else size_of(stored, config.encoder)
    small = scale_encoder(size, config.generator.scale, config.generator.depth)
    if stored is not None and config.generator.init:
        small = size_of(config_at(config.generator.init, "generator.init"), small)
    vocab_size = config.data.vocab_size if not config.data.tokenizer else 30_522
    generates = "generator" in models_of(objective_class(config.objective.name))
    generates = generates and config.generator.kind == "model"
    total, parts = 0.0, phases(config)
    for phase in parts:
        length = phase.max_length_tokens
        row = encoder_flops(size, vocab_size, length)
        row += _head_flops(config, size, small, vocab_size, length)
        if generates:
            generator = encoder_flops(small, vocab_size, length)
            generator += word_head_flops(small, vocab_size, length)
            row += generator / 2 if config.generator.frozen else generator  # no backward pass
        total += 2 * phase.batch_size * config.training.passes * phase.steps * row
    return total / parts[-1].end


def _head_flops(
    config: PretrainConfig, size: EncoderConfig, small: EncoderConfig, vocab_size: int, length: int
) -> float:
    """Return the operations of the main encoder's heads; the generator's is counted apart."""
    name = config.objective.name
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
