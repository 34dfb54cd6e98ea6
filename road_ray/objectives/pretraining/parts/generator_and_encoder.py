"""Base class of the objectives whose input a generator corrupts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor
from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.errors import ConfigError
from road_ray.models.config import Tying
from road_ray.models.cpu_kernels import use_cpu_kernels
from road_ray.models.language_model import share, states, vocabulary_logits
from road_ray.models.load_weights import suppress_logging
from road_ray.objectives.base import Metrics, Term
from road_ray.objectives.masking import corrupt, put, rows_at
from road_ray.objectives.pretraining.parts.generator import (
    Frequencies,
    Generator,
    GeneratorOutput,
    draw,
    is_frozen,
)
from road_ray.objectives.pretraining.parts.masked_input import MaskingObjective


class Corruption(NamedTuple):
    """The corrupted input of the main encoder, and the terms and metrics of the generator."""

    chosen: Tensor  # [B, L] bool
    tokens: Tensor  # [B, L] with samples at chosen positions
    replaced: Tensor  # [B, L] bool: where the sample is not the original
    labels: Tensor  # [N] originals at chosen positions
    terms: dict[str, Term]  # of the generator; empty where it is frozen
    metrics: Metrics  # of the generator


class CorruptingObjective(MaskingObjective):
    """A generator and a main encoder ``main``, trained together.

    The generator learns by masked language modelling; the subclass defines the loss of the main
    encoder. A generator whose parameters are all frozen has no loss and no dropout: the second of
    two stages. No gradient passes through the sampling. Source: Clark et al. 2020, section 2.
    """

    metric_names: ClassVar[tuple[str, ...]] = (
        "generator",
        "generator_accuracy",
        "generator_entropy",
        "replaced_fraction",
    )

    def __init__(
        self,
        generator: Generator,
        main: PreTrainedModel,
        *,
        tying: Tying = "embeddings",
        temperature: float = 1.0,
        disallow_correct: bool = False,
        **masking: Any,
    ) -> None:
        super().__init__(**masking)
        if isinstance(generator, PreTrainedModel):
            if tying != "none" and is_frozen(generator):
                raise ConfigError(
                    f"a frozen generator with generator.tying = {tying} would train shared "
                    "weights\n  fix: generator.tying=none"
                )
            share(generator, main, tying)
            use_cpu_kernels(generator)
        use_cpu_kernels(main)
        self.generator = generator
        self.encoder = main.base_model
        self.temperature = temperature
        self.disallow_correct = disallow_correct
        self.frozen = is_frozen(generator)

    @property
    def main(self) -> PreTrainedModel:
        """The main encoder with its head, which subclasses hold under their name for it."""
        main: PreTrainedModel = getattr(self, "discriminator", None) or self.model
        return main

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.frozen:
            self.generator.eval()
        return self

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        counts = super().counts(batch)
        if self.frozen:
            del counts["generator"]
        return counts

    def corrupted(self, batch: Batch) -> Corruption:
        """Return the corrupted batch, with the terms and metrics of the generator."""
        chosen, masked = self.hide(batch)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            if isinstance(self.generator, Frequencies):
                drawn = self.generator.draw(
                    rows_at(batch["input_ids"], batch["chosen"]),
                    rows_at(batch["noise"][2], batch["chosen"]),
                    self.temperature,
                    disallow_correct=self.disallow_correct,
                )
            else:
                hidden = states(self.generator.base_model, masked, batch)
                hidden = rows_at(hidden, batch["chosen"])
                drawn = self.draw_from(vocabulary_logits(self.generator, hidden), batch)
        return self.replaced_by(drawn, chosen, batch)

    def draw_from(self, logits: Tensor, batch: Batch) -> GeneratorOutput:
        """Return samples from the generator's ``logits`` at the chosen positions, ``[N, V]``."""
        return draw(
            logits,
            rows_at(batch["input_ids"], batch["chosen"]),
            rows_at(batch["noise"][2], batch["chosen"]),
            temperature=self.temperature,
            disallow_correct=self.disallow_correct,
        )

    def replaced_by(self, drawn: GeneratorOutput, chosen: Tensor, batch: Batch) -> Corruption:
        """Return the batch with the samples at the ``chosen`` positions ``[B, L]``."""
        tokens, positions = batch["input_ids"], batch["chosen"]
        changed, replaced = corrupt(tokens, chosen, put(tokens, positions, drawn.sampled))
        count = torch.full((), len(positions), device=tokens.device)
        metrics = {
            "generator_accuracy": (drawn.num_correct, count),
            "generator_entropy": (drawn.entropy, count),
            "replaced_fraction": (replaced.sum(), batch["attention_mask"].sum()),
        }
        terms = {} if self.frozen else {"generator": Term(drawn.loss, count)}
        return Corruption(chosen, changed, replaced, rows_at(tokens, positions), terms, metrics)

    def export(self, directory: Path) -> None:
        """Write the main encoder to ``directory``, the generator to ``directory/generator``."""
        with suppress_logging():
            self.main.save_pretrained(directory)
            if isinstance(self.generator, PreTrainedModel):
                self.generator.save_pretrained(directory / "generator")


def language_model(generator: Generator, name: str) -> PreTrainedModel:
    """Return ``generator``, which the objective ``name`` needs to be a trainable language model.

    Raises ``ConfigError`` if it is not.
    """
    if isinstance(generator, Frequencies) or is_frozen(generator):
        raise ConfigError(
            f"objective.name = {name} needs a generator that learns\n  fix: generator.kind=model"
        )
    return generator
