"""Samples of softmax distributions, alone or in the few passes over ``[N, V]`` that give the
cross-entropy too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


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


def sample(logits: Tensor, noise: Tensor | None = None, *, temperature: float = 1.0) -> Tensor:
    """Return one id per row from ``softmax(logits / temperature)``: ``[..., V] -> [...]``.

    Computed in fp32 without gradient, by inversion of the distribution function at one uniform
    number ``noise`` ``[...]`` per row: exact like Gumbel noise on every logit, with one number
    instead of V (Clark et al. 2020, section 2, only need a sample).
    """
    probabilities = torch.softmax(logits.detach().float() / temperature, -1)
    if noise is None:
        noise = torch.rand(logits.shape[:-1], device=logits.device)
    return invert(probabilities, noise)


def invert(probabilities: Tensor, noise: Tensor) -> Tensor:
    """Return the first id whose cumulated probability exceeds ``noise``: ``[..., V], [...] ->
    [...]``, or several per row: ``[N, V], [N, K] -> [N, K]``.

    Searched in two steps, a block of about sqrt(V) ids and then the id, so the probabilities are
    read once.
    """
    size = probabilities.shape[-1]
    block = max(1, round(size**0.5))
    whole = size // block * block
    flat = probabilities.reshape(-1, size)
    sums = flat[:, :whole].reshape(len(flat), whole // block, block).sum(-1)
    if whole < size:
        sums = torch.cat([sums, flat[:, whole:].sum(-1, keepdim=True)], -1)
    edges = sums.cumsum(-1)
    many = noise.shape[-1] if noise.dim() == probabilities.dim() else 1
    # Scaled by the true total; rounding may still reach it, hence the last block with probability.
    target = noise.reshape(-1, many).to(edges.dtype) * edges[:, -1:]
    at = torch.searchsorted(edges, target, right=True)
    at = torch.minimum(at, torch.searchsorted(edges, edges[:, -1:].contiguous()))
    at = at.clamp(max=edges.shape[-1] - 1)  # NaN lies beyond all edges; the loss is NaN then
    # Below zero by rounding, it would point to the block's first id even where that has none.
    rest = (target - (edges - sums).gather(1, at)).clamp(min=0)
    ids = at[:, :, None] * block + torch.arange(block, device=flat.device)
    taken = flat.gather(1, ids.clamp(max=size - 1).flatten(1)).view(ids.shape)
    inside = taken.masked_fill(ids >= size, 0).cumsum(-1)
    offset = torch.searchsorted(inside, rest[:, :, None], right=True)
    # Rounding between the two sums may point past the block: take its last id with probability.
    last = torch.searchsorted(inside, inside[:, :, -1:].contiguous())
    ids_drawn: Tensor = at * block + torch.minimum(offset, last).squeeze(-1)
    return ids_drawn.clamp(max=size - 1).reshape(noise.shape)
