"""Candidate tokens of a multiple choice: drawn by a generator, scored by a main encoder."""

from __future__ import annotations

import torch
from torch import Tensor

from road_ray.objectives.masking import invert


def with_replacement(logits: Tensor, noise: Tensor) -> Tensor:
    """Return draws from ``softmax(logits)``, without gradient: ``[N, V], [N, K] -> [N, K]``."""
    return invert(torch.softmax(logits.detach().float(), -1), noise)


def without_replacement(logits: Tensor, excluded: Tensor, noise: Tensor) -> Tensor:
    """Return distinct ids other than ``excluded``: ``[N, V], [N], [N, K] -> [N, K]``; no gradient.

    Each is drawn from the ids that remain, which has the distribution of Gumbel top-k. Source:
    TEAMS, official/projects/teams.
    """
    remaining = torch.softmax(logits.detach().float(), -1)
    taken = [excluded]
    for number in noise.unbind(-1):
        remaining.scatter_(1, taken[-1][:, None], 0.0)
        # A generator that is certain leaves no probability. Then any other id is drawn, as with the
        # logit penalty of TEAMS.
        empty = remaining.sum(-1) <= 0
        other = _any_other(torch.stack(taken, -1), number, remaining.shape[-1])
        taken.append(torch.where(empty, other, invert(remaining, number)))
    return torch.stack(taken[1:], -1)


def _any_other(taken: Tensor, noise: Tensor, size: int) -> Tensor:
    """Return a uniform draw from the ids below ``size`` that are not taken: ``[N, T], [N] ->
    [N]``.
    """
    rest = size - taken.shape[-1]
    drawn = (noise * rest).long().clamp(max=rest - 1)
    for before in taken.sort(-1).values.unbind(-1):
        drawn = drawn + (drawn >= before)
    return drawn


def choices(
    drawn: Tensor, labels: Tensor, replaced: Tensor, *, faithful: bool
) -> tuple[Tensor, Tensor]:
    """Return the candidates from slot 1 on, and a mask of those that count.

    ``[N, K - 1], [N], [N] -> [N, K - 1]`` each. If a token is replaced, its original is in slot 1;
    otherwise slot 0, "none of the above", is correct. A drawn candidate that equals the original
    would also be correct and does not count, except with ``faithful``: the released code counts it
    (science: section 3.1).
    """
    first = torch.where(replaced, labels, drawn[:, 0])
    candidates = torch.cat([first[:, None], drawn[:, 1:]], -1)
    counts = torch.ones_like(candidates, dtype=torch.bool)
    if not faithful:
        counts = candidates != labels[:, None]
        counts[:, 0] |= replaced
    return candidates, counts


def candidate_logits(state: Tensor, table: Tensor, candidates: Tensor) -> Tensor:
    """Return the dot products with candidates' embeddings: ``[N, E], [V, E], [N, K] -> [N, K]``."""
    rows = torch.nn.functional.embedding(candidates, table)
    return torch.einsum("ne,nke->nk", state.to(rows.dtype), rows)
