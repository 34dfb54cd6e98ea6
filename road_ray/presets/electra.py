"""Pre-training as published, each preset with its source.

All use the vocabulary of uncased BERT, as ELECTRA does; a preset says if its paper used another.
"""

from __future__ import annotations

from road_ray.data.config import CorpusConfig
from road_ray.models.config import EncoderConfig
from road_ray.presets.preset import preset
from road_ray.recipes.pretraining.config import GeneratorConfig, ObjectiveConfig, PretrainConfig
from road_ray.training.config import OptimizerConfig, TrainingConfig

_BASE = EncoderConfig(
    layers=12, hidden_size=768, heads=12, intermediate_size=3072, embedding_size=768
)


def _data(max_length_tokens: int, batch_size: int) -> CorpusConfig:
    return CorpusConfig(
        tokenizer="vocab/bert-base-uncased-vocab.txt",
        max_length_tokens=max_length_tokens,
        batch_size=batch_size,
    )


def _steps(steps: int) -> TrainingConfig:
    return TrainingConfig(steps=steps, save_every_steps=10_000)


@preset("pretrain")
def electra_small() -> PretrainConfig:
    """ELECTRA-Small. Source: Clark et al. 2020, table 6."""
    return PretrainConfig(
        data=_data(128, 128),
        encoder=EncoderConfig(),
        generator=GeneratorConfig(scale=0.25),
        optimizer=OptimizerConfig(peak_lr=5e-4, warmup_steps=10_000),
        training=_steps(1_000_000),
    )


@preset("pretrain")
def electra_small_plus() -> PretrainConfig:
    """The released ELECTRA-Small ("Small++"): 4M steps, a generator as wide as the discriminator,
    rows of 512. Source: README of google-research/electra; the rest as ELECTRA-Small, our choice.
    """
    return electra_small().model_copy(
        update={
            "data": _data(512, 128),
            "generator": GeneratorConfig(scale=1.0),
            "training": _steps(4_000_000),
        }
    )


@preset("pretrain")
def electra_base() -> PretrainConfig:
    """ELECTRA-Base. Source: Clark et al. 2020, table 6."""
    return PretrainConfig(
        data=_data(512, 256),
        encoder=_BASE,
        generator=GeneratorConfig(scale=1 / 3),
        optimizer=OptimizerConfig(peak_lr=2e-4, warmup_steps=10_000),
        training=_steps(766_000),
    )


@preset("pretrain")
def electra_large() -> PretrainConfig:
    """ELECTRA-Large, 400K steps. Source: Clark et al. 2020, table 6; a quarter of the tokens
    chosen.
    """
    return PretrainConfig(
        data=_data(512, 2048),
        encoder=EncoderConfig(
            layers=24, hidden_size=1024, heads=16, intermediate_size=4096, embedding_size=1024
        ),
        generator=GeneratorConfig(scale=0.25),
        objective=ObjectiveConfig(choose_fraction=0.25),
        optimizer=OptimizerConfig(peak_lr=2e-4, warmup_steps=10_000),
        training=_steps(400_000),
    )


@preset("pretrain")
def bert_small() -> PretrainConfig:
    """The BERT baseline at ELECTRA-Small's size. Source: Clark et al. 2020, table 6."""
    return electra_small().model_copy(
        update={"objective": ObjectiveConfig(name="mlm"), "training": _steps(1_450_000)}
    )


@preset("pretrain")
def bert_base() -> PretrainConfig:
    """The BERT baseline at ELECTRA-Base's size. Source: Clark et al. 2020, table 6."""
    return electra_base().model_copy(
        update={"objective": ObjectiveConfig(name="mlm"), "training": _steps(1_000_000)}
    )


@preset("pretrain")
def alectra_small() -> PretrainConfig:
    """ELECTRA-Small's objective and recipe on ALBERT, whose layers share their weights (Lan et al.
    2020). The combination, its name and its sizes are our choice.
    """
    return electra_small().model_copy(update={"encoder": EncoderConfig(family="albert")})


def _mc_bert(encoder: EncoderConfig, divider: int) -> PretrainConfig:
    return PretrainConfig(
        data=_data(512, 256),
        encoder=encoder,
        generator=GeneratorConfig(scale=1 / divider),
        objective=ObjectiveConfig(name="mc_bert"),
        optimizer=OptimizerConfig(
            peak_lr=1e-4,
            warmup_steps=10_000,
            schedule="warmup_then_decay",
            beta2=0.98,
            bias_correction=True,
            max_grad_norm=1e9,  # the paper does not clip gradients
        ),
        training=_steps(1_000_000),
    )


@preset("pretrain")
def mc_bert_small() -> PretrainConfig:
    """MC-BERT-Small: a meta controller of half the width. Source: the released code of arXiv
    2006.05744, whose vocabulary is a BPE of 32.7k entries.
    """
    return _mc_bert(EncoderConfig(embedding_size=256), 2)


@preset("pretrain")
def mc_bert_base() -> PretrainConfig:
    """MC-BERT-Base: a meta controller of a third of the width. Source: the released code of arXiv
    2006.05744, whose vocabulary is a BPE of 32.7k entries.
    """
    return _mc_bert(_BASE, 3)


@preset("pretrain")
def teams_small() -> PretrainConfig:
    """TEAMS-Small: a generator of half the depth at full width. Source: official/projects/teams of
    tensorflow/models.
    """
    return PretrainConfig(
        data=_data(512, 256),
        encoder=EncoderConfig(),
        generator=GeneratorConfig(scale=1.0, depth=0.5),
        objective=ObjectiveConfig(name="teams"),
        optimizer=OptimizerConfig(peak_lr=5e-4, warmup_steps=10_000),
        training=_steps(500_000),
    )


@preset("pretrain")
def teams_base() -> PretrainConfig:
    """TEAMS at ELECTRA-Base's size. The published recipe is not available: sizes and rates are
    those of ELECTRA-Base, steps those of TEAMS-Small, our choice.
    """
    return teams_small().model_copy(
        update={"encoder": _BASE, "optimizer": electra_base().optimizer}
    )


@preset("pretrain")
def second_stage_small() -> PretrainConfig:
    """Second of two stages at ELECTRA-Small's size: the generator is frozen and the discriminator
    begins as it; give a finished bert_small as init and as generator.init. Source: Clark et al.
    2020, section 3.3; half the steps of ELECTRA-Small, our choice.
    """
    return electra_small().model_copy(
        update={
            "generator": GeneratorConfig(scale=1.0, tying="none", frozen=True),
            "training": _steps(500_000),
        }
    )
