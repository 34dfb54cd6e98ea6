"""Generators that corrupt the input (a masked language model, or context-free token frequencies),
and the base classes of the objectives that mask a part of the tokens or have a generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.errors import ConfigError
from road_ray.models.attention import use_cpu_kernels
from road_ray.models.config import Tying
from road_ray.models.language_model import share, states, vocabulary_logits
from road_ray.models.load_weights import suppress_logging
from road_ray.objectives.base import Metrics, Objective, Term
from road_ray.objectives.masking import choose, corrupt, invert, mask, rows_at

Terms: TypeAlias = dict[str, Literal["chosen", "real"]]
"""Terms of a loss, and the tokens over which each is a mean: the chosen ones, or all real ones."""
GENERATOR_METRICS = ("generator_accuracy", "generator_entropy", "replaced_fraction")


class MaskingObjective(Objective):
    """Objective that chooses positions and masks most of them, by the noise of the batch.

    Source of the defaults: google electra, pretrain_helpers.py.
    """

    predicts_all: ClassVar[bool] = False
    """True where the loss reads every real token: ``prepare`` adds their positions, ``real``."""
    terms: ClassVar[Terms] = {}

    def __init__(
        self,
        *,
        special_ids: Sequence[int],
        mask_id: int,
        choose_fraction: float = 0.15,
        mask_fraction: float = 0.85,
    ) -> None:
        super().__init__()
        self.special_ids = tuple(special_ids)
        self.mask_id = mask_id
        self.choose_fraction = choose_fraction
        self.mask_fraction = mask_fraction

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch with the positions that the loss reads, as ``Objective.prepare``."""
        chosen = choose(
            batch["input_ids"],
            batch["attention_mask"],
            batch["noise"][0],
            special_ids=self.special_ids,
            fraction=self.choose_fraction,
        )
        prepared: Batch = {
            **super().prepare(batch),
            "chosen": chosen.flatten().nonzero().squeeze(1),
        }
        if self.predicts_all:
            prepared["real"] = batch["attention_mask"].flatten().nonzero().squeeze(1)
        return prepared

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        real = batch["attention_mask"].sum()
        chosen = torch.full((), len(batch["chosen"]), device=real.device)
        return {name: chosen if of == "chosen" else real for name, of in self.terms.items()}

    def hide(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the chosen positions and the masked tokens, ``[B, L]`` each."""
        tokens, positions = batch["input_ids"], batch["chosen"]
        chosen = torch.zeros_like(tokens, dtype=torch.bool).flatten()
        chosen = chosen.index_fill(0, positions, True).view_as(tokens)
        return chosen, mask(
            tokens,
            chosen,
            batch["noise"][1],
            mask_id=self.mask_id,
            mask_fraction=self.mask_fraction,
        )

    def export(self, directory: Path) -> None:
        """Write the main encoder to ``directory``, a generator to ``directory/generator``."""
        main: Any = getattr(self, "discriminator", None) or self.model  # the name of a subclass
        generator: Any = getattr(self, "generator", None)
        with suppress_logging():
            main.save_pretrained(directory)
            if isinstance(generator, PreTrainedModel):
                generator.save_pretrained(directory / "generator")


class Frequencies(nn.Module):
    """Generator that draws tokens from fixed ``probabilities`` ``[V]``, regardless of context.

    Uniform or unigram. Source: Clark et al. 2020, section 3.2 (figure 3, "unigram").
    """

    probabilities: Tensor

    def __init__(self, probabilities: Tensor) -> None:
        super().__init__()
        self.register_buffer("probabilities", probabilities / probabilities.sum())

    def draw(
        self, labels: Tensor, noise: Tensor, temperature: float, disallow_correct: bool
    ) -> Drawn:
        """Return one sample per chosen position, as ``draw`` of logits."""
        tempered = torch.softmax(self.probabilities.log() / temperature, 0).repeat(len(labels), 1)
        entropy = torch.special.entr(tempered).sum()
        loss = -self.probabilities[labels].clamp(min=1e-30).log().sum()
        num_correct = (labels == self.probabilities.argmax()).sum()
        if disallow_correct:
            tempered.scatter_(1, labels[:, None], 0.0)
        return loss, invert(tempered, noise), num_correct, entropy


Generator: TypeAlias = PreTrainedModel | Frequencies
Drawn: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor]
"""Summed cross-entropy, which alone has a gradient, one sample a position ``[N]``, the number of
labels that are the most probable id, and the summed entropy in nats."""


class _PredictAndSample(torch.autograd.Function):
    """Cross-entropy and sampling with one softmax, which also becomes the gradient, in place."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, noise: Tensor) -> Drawn:
        exact = logits.float()
        probabilities = torch.softmax(exact, -1)
        top, best = probabilities.max(-1)
        highest = exact.gather(1, best[:, None]).squeeze(1)
        # From the logits and the largest probability, because that of the label may be 0 in fp32.
        lead = highest - exact.gather(1, labels[:, None]).squeeze(1)
        # As a matrix product, which reads both once and stores no logarithms.
        mean = torch.bmm(probabilities[:, None, :], exact[:, :, None]).flatten()
        entropy = (highest - top.log() - mean).sum()
        sampled = invert(probabilities, noise)
        num_correct = (best == labels).sum()
        ctx.probabilities = probabilities
        ctx.dtype = logits.dtype
        ctx.save_for_backward(labels)
        ctx.mark_non_differentiable(sampled, num_correct, entropy)
        return (lead - top.log()).sum(), sampled, num_correct, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (labels,) = ctx.saved_tensors
        gradient: Tensor = ctx.probabilities
        del ctx.probabilities
        gradient.scatter_add_(1, labels[:, None], gradient.new_full((len(labels), 1), -1.0))
        return gradient.mul_(gradients[0]).to(ctx.dtype), None, None


_predict_and_sample: Any = _PredictAndSample.apply  # torch leaves it untyped


def draw(
    logits: Tensor,
    labels: Tensor,
    noise: Tensor,
    temperature: float = 1.0,
    disallow_correct: bool = False,
) -> Drawn:
    """Return loss, samples, correct predictions and entropy: ``[N, V], [N], [N] -> [], [N], [],
    []``.

    Samples are drawn by inversion at ``noise``; with ``disallow_correct`` the label is never drawn
    (google electra, ``disallow_correct``). Computed in fp32 for ``logits`` of any dtype, which get
    their gradient through the loss only.
    """
    loss, sampled, num_correct, entropy = _predict_and_sample(logits, labels, noise)
    if temperature != 1.0 or disallow_correct:
        tempered = torch.softmax(logits.detach().float() / temperature, -1)
        if disallow_correct:
            tempered.scatter_(1, labels[:, None], 0.0)
        sampled = invert(tempered, noise)
    return loss, sampled, num_correct, entropy


class Corruption(NamedTuple):
    """The corrupted input of the main encoder, and the terms and metrics of the generator."""

    chosen: Tensor  # [B, L] bool
    tokens: Tensor  # [B, L] with samples at chosen positions
    replaced: Tensor  # [B, L] bool: where the sample is not the original
    labels: Tensor  # [N] originals at chosen positions
    sampled: Tensor  # [N] samples at chosen positions
    hidden: Any  # [N, D] states of the generator where ``generator_at`` says; else None
    logits: Any  # [N, V] of it
    terms: dict[str, Term]  # of the generator; empty where it is frozen
    metrics: Metrics  # of the generator


class CorruptingObjective(MaskingObjective):
    """A generator and a main encoder ``main``, trained together.

    The generator learns by masked language modelling; the subclass defines the loss of the main
    encoder. A generator whose parameters are all frozen has no loss and no dropout: the second of
    two stages. No gradient passes through the sampling. Source: Clark et al. 2020, section 2.
    """

    generator_at: ClassVar[Literal["chosen", "real"] | None] = None
    """Positions where the loss reads states and logits of the generator, which is trained then;
    others are freed."""

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
        # Frequencies, or the second stage of two.
        self.frozen = not any(weight.requires_grad for weight in generator.parameters())
        if self.frozen and self.generator_at:
            name = type(self).__name__
            raise ConfigError(f"{name} needs a generator that learns\n  fix: generator.kind=model")
        if isinstance(generator, PreTrainedModel):
            if tying != "none" and self.frozen:
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
        tokens, positions = batch["input_ids"], batch["chosen"]
        labels, noise = rows_at(tokens, positions), rows_at(batch["noise"][2], positions)
        chosen, masked = self.hide(batch)
        options = self.temperature, self.disallow_correct
        read: tuple[Any, Any] = None, None
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            if isinstance(self.generator, Frequencies):
                drawn = self.generator.draw(labels, noise, *options)
            else:
                encoded = states(self.generator.base_model, masked, batch)
                places = batch["real"] if self.generator_at == "real" else positions
                hidden = rows_at(encoded, places)
                logits = vocabulary_logits(self.generator, hidden)
                read = (hidden, logits) if self.generator_at else read
                if places is not positions:  # chosen ones are real too: theirs are rows of these
                    logits = logits.index_select(0, torch.searchsorted(places, positions))
                drawn = draw(logits, labels, noise, *options)
        loss, sampled, num_correct, entropy = drawn
        samples = tokens.flatten().scatter(0, positions, sampled).view_as(tokens)
        changed, replaced = corrupt(tokens, chosen, samples)
        count = torch.full((), len(positions), device=tokens.device)
        metrics = {
            "generator_accuracy": (num_correct, count),
            "generator_entropy": (entropy, count),
            "replaced_fraction": (replaced.sum(), batch["attention_mask"].sum()),
        }
        terms = {} if self.frozen else {"generator": Term(loss, count)}
        return Corruption(chosen, changed, replaced, labels, sampled, *read, terms, metrics)
