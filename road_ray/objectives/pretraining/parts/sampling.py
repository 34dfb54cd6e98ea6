"""Cross-entropy and a sample from the same logits, in few passes over ``[N, V]``."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from road_ray.objectives.masking import invert


class Prediction(NamedTuple):
    """Output of a masked language model at ``N`` positions; only the loss carries a gradient."""

    loss: Tensor  # [] summed cross-entropy
    sampled: Tensor  # [N] one id a row
    num_correct: Tensor  # [] rows whose label is the most probable id
    entropy: Tensor  # [] of the distributions, summed, in nats


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


_predict_and_sample: Any = _PredictAndSample.apply  # torch leaves it untyped


def predict(logits: Tensor, labels: Tensor, noise: Tensor) -> Prediction:
    """Return loss, samples, correct predictions and entropy: ``[N, V], [N], [N] -> [], [N], [],
    []``.

    Samples are drawn by inversion at ``noise``. Computed in fp32 for ``logits`` of any dtype, which
    get their gradient through the loss only.
    """
    if torch.compiler.is_compiling():  # which fuses the plain form, and cannot trace the other
        return _plain(logits, labels, noise)
    return Prediction(*_predict_and_sample(logits, labels, noise))


def _plain(logits: Tensor, labels: Tensor, noise: Tensor) -> Prediction:
    """Return the same by functions of PyTorch."""
    log_probabilities = logits.float().log_softmax(-1)
    loss = functional.nll_loss(log_probabilities, labels, reduction="sum")
    log_probabilities = log_probabilities.detach()
    probabilities = log_probabilities.exp()
    num_correct = (log_probabilities.argmax(-1) == labels).sum()
    entropy = torch.special.entr(probabilities).sum()
    return Prediction(loss, invert(probabilities, noise), num_correct, entropy)
