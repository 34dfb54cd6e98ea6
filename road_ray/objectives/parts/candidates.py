"""A few tokens to choose from: drawn by a generator, scored by a main encoder."""

from __future__ import annotations

import torch
from torch import Tensor

from road_ray.objectives.masking import invert


def with_replacement(logits: Tensor, noise: Tensor) -> Tensor:
    """Independent draws from ``softmax(logits)``: ``[N, V], [N, K] -> [N, K]``; no gradient."""
    return invert(torch.softmax(logits.detach().float(), -1), noise)


def without_replacement(logits: Tensor, excluded: Tensor, noise: Tensor) -> Tensor:
    """Different ids, none of them ``excluded``: ``[N, V], [N], [N, K] -> [N, K]``; no gradient.

    One after the other from what is left, which is distributed as Gumbel top-k is. Source: TEAMS,
    official/projects/teams.
    """
    left = torch.softmax(logits.detach().float(), -1)
    taken = excluded
    drawn: list[Tensor] = []
    for number in noise.unbind(-1):
        left.scatter_(1, taken[:, None], 0.0)
        # A sure generator leaves nothing: then any other id, as the logits' penalty there does.
        empty = left.sum(-1, keepdim=True) <= 0
        if bool(empty.any()):
            even = torch.ones_like(left).scatter_(1, excluded[:, None], 0.0)
            for earlier in drawn:
                even.scatter_(1, earlier[:, None], 0.0)
            left = torch.where(empty, even, left)
        taken = invert(left, number)
        drawn.append(taken)
    return torch.stack(drawn, -1)


def candidate_logits(state: Tensor, table: Tensor, candidates: Tensor) -> Tensor:
    """Products with the embeddings of candidates: ``[N, E], [V, E], [N, K] -> [N, K]``."""
    rows = torch.nn.functional.embedding(candidates, table)
    return torch.einsum("ne,nke->nk", state.to(rows.dtype), rows)
