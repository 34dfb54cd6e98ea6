"""Cross-entropy and a sample from the same logits, with as few passes over ``[N, V]`` as can be."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from road_ray.objectives.masking import invert


class Prediction(NamedTuple):
    """What a masked language model says at ``N`` positions; only the loss carries a gradient."""

    loss: Tensor  # [] summed cross-entropy
    sampled: Tensor  # [N] one id a row
    right: Tensor  # [] rows whose gold is the most probable id
    entropy: Tensor  # [] of the distributions, summed, in nats


class _PredictAndSample(torch.autograd.Function):
    """The softmax is taken once and serves the loss, the sample and, in place, the gradient."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, gold: Tensor, noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        exact = logits.float()
        probabilities = torch.softmax(exact, -1)
        top, best = probabilities.max(-1)
        highest = exact.gather(1, best[:, None]).squeeze(1)
        # From the logits and the largest probability, because that of the gold may be 0 in fp32.
        lead = highest - exact.gather(1, gold[:, None]).squeeze(1)
        # By a product of matrices, which reads both once and keeps no table of logarithms.
        mean = torch.bmm(probabilities[:, None, :], exact[:, :, None]).flatten()
        entropy = (highest - top.log() - mean).sum()
        sampled = invert(probabilities, noise)
        right = (best == gold).sum()
        ctx.probabilities = probabilities
        ctx.dtype = logits.dtype
        ctx.save_for_backward(gold)
        ctx.mark_non_differentiable(sampled, right, entropy)
        return (lead - top.log()).sum(), sampled, right, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gold,) = ctx.saved_tensors
        gradient: Tensor = ctx.probabilities
        del ctx.probabilities
        gradient.scatter_add_(1, gold[:, None], gradient.new_full((len(gold), 1), -1.0))
        return gradient.mul_(gradients[0]).to(ctx.dtype), None, None


_predict_and_sample: Any = _PredictAndSample.apply  # torch leaves it untyped


def predict(logits: Tensor, gold: Tensor, noise: Tensor) -> Prediction:
    """Loss, samples, number right and entropy: ``[N, V], [N], [N] -> [], [N], [], []``.

    The sample is drawn by inversion at ``noise``. In fp32 whatever the dtype of ``logits``, which
    get their gradient only through the loss.
    """
    return Prediction(*_predict_and_sample(logits, gold, noise))
