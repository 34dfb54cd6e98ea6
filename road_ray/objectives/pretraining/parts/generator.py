"""Generators that corrupt the input: a masked language model, or context-free token frequencies."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from road_ray.models.language_model import vocabulary_logits
from road_ray.objectives.masking import invert
from road_ray.objectives.pretraining.parts.sampling import predict


class Frequencies(nn.Module):
    """Generator that draws tokens from fixed ``probabilities`` ``[V]``, regardless of context.

    Uniform or unigram. Source: Clark et al. 2020, section 3.2 (figure 3, "unigram").
    """

    probabilities: Tensor

    def __init__(self, probabilities: Tensor) -> None:
        super().__init__()
        self.register_buffer("probabilities", probabilities / probabilities.sum())


Generator: TypeAlias = PreTrainedModel | Frequencies


class GeneratorOutput(NamedTuple):
    """Samples ``[N]`` at the chosen positions, and the loss and metrics of their distribution."""

    sampled: Tensor
    loss: Tensor  # summed cross-entropy
    num_correct: Tensor  # rows whose label is the most probable token
    entropy: Tensor  # summed, in nats


def draw(
    generator: Generator,
    hidden: Tensor | None,
    labels: Tensor,
    noise: Tensor,
    *,
    temperature: float = 1.0,
    disallow_correct: bool = False,
) -> GeneratorOutput:
    """Return one sample per chosen position: ``[N, D], [N], [N] -> [N]``.

    ``hidden`` is None for a generator without context. With ``disallow_correct`` the label is
    never drawn (google electra, ``disallow_correct``).
    """
    if isinstance(generator, Frequencies):
        return _from_frequencies(
            generator.probabilities, labels, noise, temperature, disallow_correct
        )
    assert hidden is not None
    logits = vocabulary_logits(generator, hidden)
    return draw_from_logits(
        logits, labels, noise, temperature=temperature, disallow_correct=disallow_correct
    )


def draw_from_logits(
    logits: Tensor,
    labels: Tensor,
    noise: Tensor,
    *,
    temperature: float = 1.0,
    disallow_correct: bool = False,
) -> GeneratorOutput:
    """Return one sample per row of a generator's logits: ``[N, V], [N], [N] -> [N]``."""
    predicted = predict(logits, labels, noise)
    sampled = predicted.sampled
    if temperature != 1.0 or disallow_correct:
        tempered = torch.softmax(logits.detach().float() / temperature, -1)
        if disallow_correct:
            tempered.scatter_(1, labels[:, None], 0.0)
        sampled = invert(tempered, noise)
    return GeneratorOutput(sampled, predicted.loss, predicted.num_correct, predicted.entropy)


def _from_frequencies(
    probabilities: Tensor, labels: Tensor, noise: Tensor, temperature: float, disallow: bool
) -> GeneratorOutput:
    tempered = probabilities ** (1 / temperature)
    tempered = (tempered / tempered.sum()).repeat(len(labels), 1)
    entropy = torch.special.entr(tempered).sum()
    loss = -probabilities[labels].clamp(min=1e-30).log().sum()
    num_correct = (labels == probabilities.argmax()).sum()
    if disallow:
        tempered.scatter_(1, labels[:, None], 0.0)
    return GeneratorOutput(invert(tempered, noise), loss, num_correct, entropy)


def is_frozen(generator: Generator) -> bool:
    """Return whether no parameter is trained: frequencies, or the second of two stages."""
    return not any(parameter.requires_grad for parameter in generator.parameters())
