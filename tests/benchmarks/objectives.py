"""A step of every pre-training objective, each with the generator that its paper gives it."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch

from road_ray.data.config import CorpusConfig
from road_ray.models.encoder import new_detector, new_language_model, scale_encoder
from road_ray.objectives.base import Objective
from road_ray.objectives.pretraining.registry import models_of, objective_class
from road_ray.recipes.pretraining.config import GeneratorConfig, ObjectiveConfig, PretrainConfig
from road_ray.recipes.pretraining.pretraining_flops import cost
from road_ray.training.config import TrainingConfig
from tests.benchmarks import shapes
from tests.benchmarks.learning import learn
from tests.benchmarks.race import gated
from tests.benchmarks.shapes import Shape

# Of the discriminator's width and depth; elsewhere ELECTRA-Small's.
_GENERATORS = {
    "mc_bert": GeneratorConfig(scale=0.5),
    "teams": GeneratorConfig(scale=1.0, depth=0.5),
}


@dataclass(frozen=True)
class Learning:
    """What is learnt, by a model of which size."""

    name: str
    shape: Shape
    clock: str = "wall"


def objective(name: str, shape: Shape) -> Objective:
    """The objective with new models."""
    torch.manual_seed(0)
    settings = _GENERATORS.get(name, GeneratorConfig())
    small = scale_encoder(shape.encoder, settings.scale, settings.depth)
    makers = {
        "generator": lambda: new_language_model(small, shape.vocab_size),
        "model": lambda: new_language_model(shape.encoder, shape.vocab_size),
        "discriminator": lambda: new_detector(shape.encoder, shape.vocab_size),
    }
    kind = objective_class(name)
    options = {"shared_layers": min(3, small.layers)} if name == "teams" else {}
    made = [makers[model]() for model in models_of(kind)]
    return kind(*made, special_ids=shapes.SPECIAL, mask_id=shapes.MASK, **options)


def step(learning: Learning, connection: Connection) -> None:
    """The loop that every recipe runs."""
    made = objective(learning.name, learning.shape)
    given = shapes.batches(learning.shape, noise_channels=made.noise_channels)
    stream = gated(connection, given, learning.clock)
    config = TrainingConfig(precision="fp32")
    learn(made, lambda _: ([batch] for batch in stream), config, peak_lr=5e-4)


def flops(name: str, shape: Shape) -> float:
    """Of one step, by the paper's rules."""
    config = PretrainConfig(
        encoder=shape.encoder,
        generator=_GENERATORS.get(name, GeneratorConfig()),
        objective=ObjectiveConfig(name=name),
        data=CorpusConfig(max_length_tokens=shape.length, batch_size=shape.batch_size),
        training=TrainingConfig(steps=1),
    )
    return cost(config, shape.vocab_size).step_paper
