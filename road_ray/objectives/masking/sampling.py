"""Draw tokens from the distribution of a generator."""

from __future__ import annotations

import torch
from torch import Tensor


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

    The search has two steps, for a block of about sqrt(V) ids and for the id in it, so the
    probabilities are read once.
    """
    size = probabilities.shape[-1]
    block = max(1, round(size**0.5))
    divisible = size // block * block
    flat = probabilities.reshape(-1, size)
    sums = flat[:, :divisible].reshape(len(flat), divisible // block, block).sum(-1)
    if divisible < size:
        sums = torch.cat([sums, flat[:, divisible:].sum(-1, keepdim=True)], -1)
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
