"""Generators that corrupt the input: a masked language model, or context-free token frequencies."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from road_ray.objectives.masking import invert


class Frequencies(nn.Module):
    """Generator that draws tokens from fixed ``probabilities`` ``[V]``, regardless of context.

    Uniform or unigram. Source: Clark et al. 2020, section 3.2 (figure 3, "unigram").
    """

    probabilities: Tensor

    def __init__(self, probabilities: Tensor) -> None:
        super().__init__()
        self.register_buffer("probabilities", probabilities / probabilities.sum())

    def draw(
        self, labels: Tensor, noise: Tensor, temperature: float, *, disallow_correct: bool
    ) -> GeneratorOutput:
        """Return one sample per chosen position: ``[N], [N] -> [N]``."""
        tempered = self.probabilities ** (1 / temperature)
        tempered = (tempered / tempered.sum()).repeat(len(labels), 1)
        entropy = torch.special.entr(tempered).sum()
        loss = -self.probabilities[labels].clamp(min=1e-30).log().sum()
        num_correct = (labels == self.probabilities.argmax()).sum()
        if disallow_correct:
            tempered.scatter_(1, labels[:, None], 0.0)
        return GeneratorOutput(loss, invert(tempered, noise), num_correct, entropy)


Generator: TypeAlias = PreTrainedModel | Frequencies


class GeneratorOutput(NamedTuple):
    """Output at ``N`` chosen positions: samples, with loss and metrics of their distributions. Only
    the loss carries a gradient.
    """

    loss: Tensor  # [] summed cross-entropy
    sampled: Tensor  # [N] one id a row
    num_correct: Tensor  # [] rows whose label is the most probable id
    entropy: Tensor  # [] summed, in nats


def is_frozen(generator: Generator) -> bool:
    """Return whether no parameter is trained: frequencies, or the second stage of two."""
    return not any(parameter.requires_grad for parameter in generator.parameters())


class _PredictAndSample(torch.autograd.Function):
    """Cross-entropy and sampling with one softmax, which also becomes the gradient, in place."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
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


def draw(
    logits: Tensor,
    labels: Tensor,
    noise: Tensor,
    *,
    temperature: float = 1.0,
    disallow_correct: bool = False,
) -> GeneratorOutput:
    """Return loss, samples, correct predictions and entropy: ``[N, V], [N], [N] -> [], [N], [],
    []``.

    Samples are drawn by inversion at ``noise``; with ``disallow_correct`` the label is never drawn
    (google electra, ``disallow_correct``). Computed in fp32 for ``logits`` of any dtype, which get
    their gradient through the loss only.
    """
    # A compiler fuses the plain form and cannot trace the other.
    predict = _plain if torch.compiler.is_compiling() else _PredictAndSample.apply
    output = GeneratorOutput(*predict(logits, labels, noise))
    if temperature == 1.0 and not disallow_correct:
        return output
    tempered = torch.softmax(logits.detach().float() / temperature, -1)
    if disallow_correct:
        tempered.scatter_(1, labels[:, None], 0.0)
    return output._replace(sampled=invert(tempered, noise))


def _plain(logits: Tensor, labels: Tensor, noise: Tensor) -> GeneratorOutput:
    """Return the result of ``_PredictAndSample`` by functions of PyTorch."""
    log_probabilities = logits.float().log_softmax(-1)
    loss = functional.nll_loss(log_probabilities, labels, reduction="sum")
    log_probabilities = log_probabilities.detach()
    probabilities = log_probabilities.exp()
    num_correct = (log_probabilities.argmax(-1) == labels).sum()
    entropy = torch.special.entr(probabilities).sum()
    return GeneratorOutput(loss, invert(probabilities, noise), num_correct, entropy)
