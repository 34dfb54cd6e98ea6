"""Cross-entropy and a sample from the same logits, with as few passes over ``[N, V]`` as can be."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from road_ray.objectives.masking import invert


class _PredictAndSample(torch.autograd.Function):
    """The softmax is taken once and serves the loss, the sample and, in place, the gradient."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, gold: Tensor, noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        probabilities = torch.softmax(logits.float(), -1)
        top, best = probabilities.max(-1)
        # From the logits and the largest probability, because that of the gold may be 0 in fp32.
        lead = logits.gather(1, best[:, None]).float() - logits.gather(1, gold[:, None]).float()
        sampled = invert(probabilities, noise)
        right = (best == gold).sum()
        ctx.probabilities = probabilities
        ctx.dtype = logits.dtype
        ctx.save_for_backward(gold)
        ctx.mark_non_differentiable(sampled, right)
        return (lead.squeeze(1) - top.log()).sum(), sampled, right

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gold,) = ctx.saved_tensors
        gradient: Tensor = ctx.probabilities
        del ctx.probabilities
        gradient.scatter_add_(1, gold[:, None], gradient.new_full((len(gold), 1), -1.0))
        return gradient.mul_(gradients[0]).to(ctx.dtype), None, None


_predict_and_sample: Any = _PredictAndSample.apply  # torch leaves it untyped


def predict(
    logits: Tensor, gold: Tensor, noise: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, samples, number right: ``[N, V], [N], [N] -> [], [N], []``.

    The summed cross-entropy, one sample a row by inversion at ``noise``, and how many rows have
    the gold as their most probable id. In fp32 whatever the dtype of ``logits``, which get their
    gradient only through the loss.
    """
    loss, sampled, right = _predict_and_sample(logits, gold, noise)
    if temperature != 1.0:
        sampled = invert(torch.softmax(logits.detach().float() / temperature, -1), noise)
    return loss, sampled, right
