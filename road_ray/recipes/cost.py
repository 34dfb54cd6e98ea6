"""What a pre-training costs in floating-point operations, before a step is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from road_ray.errors import ConfigError
from road_ray.models.encoder import EncoderConfig, scaled
from road_ray.models.flops import (
    choice_head_flops,
    detection_head_flops,
    encoder_flops,
    infer_flops,
    layer_flops,
    layer_parameters,
    word_head_flops,
)
from road_ray.objectives.registry import OBJECTIVES, models_of, options_of
from road_ray.recipes.pretrain import PretrainConfig


@dataclass(frozen=True)
class Cost:
    """Floating-point operations of a pre-training."""

    train_paper: float  # the whole run, by the rules of the ELECTRA paper
    train_6nd: float  # the whole run: 6 a weight of the layers and a token, both networks
    step_paper: float
    infer_paper: float  # one row through the encoder that is kept
    tokens: float  # rows taken as full


@dataclass(frozen=True)
class _Row:
    """What the heads of one row are told."""

    size: EncoderConfig
    small: EncoderConfig
    vocab_size: int
    length: int
    candidates: int


def _words(row: _Row) -> float:
    return word_head_flops(row.size, row.vocab_size, row.length)


def _words_everywhere(row: _Row) -> float:
    return word_head_flops(row.size, row.vocab_size, row.length, 1.0)


def _detection(row: _Row) -> float:
    return detection_head_flops(row.size, row.length)


def _mc_bert(row: _Row) -> float:
    # Its generator draws at every position, not only where it learns.
    more = 1.0 - word_head_flops(row.small, row.vocab_size, row.length) / word_head_flops(
        row.small, row.vocab_size, row.length, 1.0
    )
    generator = word_head_flops(row.small, row.vocab_size, row.length, more)
    return generator + choice_head_flops(row.size, row.candidates, row.length, 1.0)


def _teams(row: _Row) -> float:
    choice = choice_head_flops(row.size, row.candidates, row.length, 0.15625)
    return layer_flops(row.size, row.length) + _detection(row) + choice


# Heads of the main encoder by objective; the generator's head for words is counted apart.
_HEADS: dict[str, Callable[[_Row], float]] = {
    "mlm": _words,
    "replace_mlm": _words,
    "all_tokens_mlm": _words_everywhere,
    "mc_bert": _mc_bert,
    "teams": _teams,
}


def cost(config: PretrainConfig, vocab_size: int | None = None) -> Cost:
    """The cost of a configuration, all rows taken as ``data.max_length_tokens`` long.

    Raises ``ConfigError`` when ``training.steps`` is missing.
    """
    if config.training.steps is None:
        raise ConfigError("training.steps is not given\n  allowed: a number of updates, at least 1")
    kind = OBJECTIVES[config.objective.name]
    length = config.data.max_length_tokens
    vocab_size = vocab_size or (config.data.vocab_size if not config.data.tokenizer else 30_522)
    small = scaled(config.encoder, config.generator.scale, config.generator.depth)
    candidates = config.objective.candidates or int(options_of(kind).get("candidates", 1))
    row = _Row(config.encoder, small, vocab_size, length, candidates)
    head = _HEADS.get(config.objective.name, _detection)
    once = encoder_flops(config.encoder, vocab_size, length) + head(row)
    weights = config.encoder.layers * layer_parameters(config.encoder)
    if "generator" in models_of(kind) and config.generator.kind == "model":
        generator = encoder_flops(small, vocab_size, length)
        generator += word_head_flops(small, vocab_size, length)
        # Without a backward pass it costs half.
        once += generator / 2 if config.generator.frozen else generator
        weights += small.layers * layer_parameters(small)
    rows = config.data.batch_size * config.training.passes
    step = 2 * rows * once
    tokens = float(rows * length * config.training.steps)
    return Cost(
        train_paper=step * config.training.steps,
        train_6nd=6 * weights * tokens,
        step_paper=step,
        infer_paper=infer_flops(config.encoder, vocab_size, length),
        tokens=tokens,
    )
