"""What corrupts the input: a masked language model, or draws that look at no context."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from road_ray.models.language_model import vocabulary_logits
from road_ray.objectives.masking import invert
from road_ray.objectives.parts.sampling import predict


class Frequencies(nn.Module):
    """Draws tokens by fixed ``probabilities`` ``[V]`` whatever stands around them.

    Uniform or unigram. Source: Clark et al. 2020, section 3.2 (figure 3, "unigram").
    """

    probabilities: Tensor

    def __init__(self, probabilities: Tensor) -> None:
        super().__init__()
        self.register_buffer("probabilities", probabilities / probabilities.sum())


Generator: TypeAlias = PreTrainedModel | Frequencies


class FrequencyGenerator(NamedTuple):
    """Samples ``[N]`` at the chosen positions, and how well their distribution knew the gold."""

    sampled: Tensor
    loss: Tensor  # summed cross-entropy
    right: Tensor  # how often the gold was the most probable
    entropy: Tensor  # summed, in nats


def draw(
    generator: Generator,
    hidden: Tensor | None,
    gold: Tensor,
    noise: Tensor,
    *,
    temperature: float = 1.0,
    disallow_correct: bool = False,
) -> FrequencyGenerator:
    """A sample a chosen position, from ``hidden`` ``[N, D]``; ``gold`` and ``noise`` are ``[N]``.

    With ``disallow_correct`` the gold is never drawn (google electra, ``disallow_correct``).
    """
    if isinstance(generator, Frequencies):
        return _from_frequencies(
            generator.probabilities, gold, noise, temperature, disallow_correct
        )
    assert hidden is not None
    logits = vocabulary_logits(generator, hidden)
    found = predict(logits, gold, noise)
    sampled = found.sampled
    if temperature != 1.0 or disallow_correct:
        tempered = torch.softmax(logits.detach().float() / temperature, -1)
        if disallow_correct:
            tempered.scatter_(1, gold[:, None], 0.0)
        sampled = invert(tempered, noise)
    return FrequencyGenerator(sampled, found.loss, found.right, found.entropy)


def _from_frequencies(
    probabilities: Tensor, gold: Tensor, noise: Tensor, temperature: float, disallow: bool
) -> FrequencyGenerator:
    tempered = probabilities ** (1 / temperature)
    tempered = (tempered / tempered.sum()).repeat(len(gold), 1)
    entropy = torch.special.entr(tempered).sum()
    loss = -probabilities[gold].clamp(min=1e-30).log().sum()
    right = (gold == probabilities.argmax()).sum()
    if disallow:
        tempered.scatter_(1, gold[:, None], 0.0)
    return FrequencyGenerator(invert(tempered, noise), loss, right, entropy)


def is_frozen(generator: Generator) -> bool:
    """True when nothing of the generator learns: frequencies, or the second of two stages."""
    return not any(parameter.requires_grad for parameter in generator.parameters())
