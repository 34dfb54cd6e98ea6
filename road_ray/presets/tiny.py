"""Pre-training on a laptop, for the embedded or another small corpus: all sizes are our choice."""

from __future__ import annotations

from road_ray.data.config import CorpusConfig
from road_ray.models.config import EncoderConfig
from road_ray.presets.preset import preset
from road_ray.recipes.pretraining.config import GeneratorConfig, ObjectiveConfig, PretrainConfig
from road_ray.training.config import OptimizerConfig, TrainingConfig


def _encoder() -> EncoderConfig:
    return EncoderConfig(
        layers=4,
        hidden_size=256,
        heads=4,
        intermediate_size=1024,
        embedding_size=128,
        max_length_tokens=512,
        dropout=0.0,  # hours on a laptop see no text twice
        attention_dropout=0.0,
        initializer_std=0.06,  # about 1 / sqrt(width)
    )


@preset("pretrain")
def tiny_mlm() -> PretrainConfig:
    """First stage for a laptop: a masked language model on short rows, 12 million tokens. Our
    choice.
    """
    return PretrainConfig(
        start="corpus",
        data=CorpusConfig(vocab_size=4096, max_length_tokens=64, batch_size=16),
        encoder=_encoder(),
        objective=ObjectiveConfig(name="mlm", choose_fraction=0.25),
        # Without bias correction the first hundred updates are several times too large at this
        # rate.
        optimizer=OptimizerConfig(
            peak_lr=1.5e-3, warmup_steps=200, beta2=0.98, bias_correction=True
        ),
        training=TrainingConfig(steps=12_000, save_every_steps=2000, log_every_steps=100),
    )


@preset("pretrain")
def tiny_electra() -> PretrainConfig:
    """Second stage for a laptop: generator and discriminator both start from tiny_mlm (give its
    run as init and as generator.init). Our choice.
    """
    return PretrainConfig(
        start="corpus",
        data=CorpusConfig(vocab_size=4096, max_length_tokens=128, batch_size=16),
        encoder=_encoder(),
        # As large as the discriminator, so that both can start from one model.
        generator=GeneratorConfig(scale=1.0),
        optimizer=OptimizerConfig(peak_lr=5e-4, warmup_steps=200, beta2=0.98, bias_correction=True),
        training=TrainingConfig(steps=4_500, save_every_steps=500, log_every_steps=100),
    )


@preset("pretrain")
def tiny_teams() -> PretrainConfig:
    """TEAMS for a laptop: four layers of 256, a generator of two of them. Our choice."""
    return _four_layers(
        "teams", GeneratorConfig(scale=1.0, depth=0.5), ObjectiveConfig(shared_layers=1)
    )


@preset("pretrain")
def tiny_mc_bert() -> PretrainConfig:
    """MC-BERT for a laptop, with a generator of half the width. Our choice."""
    return _four_layers("mc_bert", GeneratorConfig(scale=0.5), ObjectiveConfig())


@preset("pretrain")
def tiny_alectra() -> PretrainConfig:
    """ELECTRA on ALBERT for a laptop. Our choice."""
    config = _four_layers("electra", GeneratorConfig(scale=0.5), ObjectiveConfig())
    encoder = config.encoder.model_copy(update={"family": "albert"})
    return config.model_copy(update={"encoder": encoder, "start": "random"})


def _four_layers(name: str, generator: GeneratorConfig, options: ObjectiveConfig) -> PretrainConfig:
    return PretrainConfig(
        start="corpus",
        data=CorpusConfig(vocab_size=4096, max_length_tokens=64, batch_size=16),
        encoder=_encoder(),
        generator=generator,
        objective=options.model_copy(update={"name": name}),
        optimizer=OptimizerConfig(peak_lr=5e-4, warmup_steps=200, beta2=0.98, bias_correction=True),
        training=TrainingConfig(steps=4000, save_every_steps=500, log_every_steps=100),
    )
