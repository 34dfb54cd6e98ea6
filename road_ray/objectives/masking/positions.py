"""Choose positions, and read and write values at them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def choose(
    tokens: Tensor,
    attention_mask: Tensor,
    noise: Tensor | None = None,
    *,
    special_ids: Sequence[int],
    fraction: float = 0.15,
) -> Tensor:
    """Return the positions to predict, ``[B, L]`` bool: ``max(1, round(fraction * real tokens))``
    per row.

    They are drawn uniformly without replacement: the positions with the smallest ``noise`` ``[B,
    L]``. Padding and the ids in ``special_ids`` are never chosen, so a row may have fewer.
    Source: Clark et al. 2020, section 3.1; google electra, pretrain_helpers.py (which draws with
    replacement).
    """
    if noise is None:
        noise = torch.rand(tokens.shape, device=tokens.device)
    special = torch.tensor(list(special_ids), dtype=tokens.dtype, device=tokens.device)
    candidates = attention_mask.bool() & ~torch.isin(tokens, special)
    counts = (attention_mask.sum(1).double() * fraction).round().long().clamp(min=1)
    counts = torch.minimum(counts, candidates.sum(1))
    # Rank among candidates: noise beyond 1 puts the others last.
    order = noise.masked_fill(~candidates, 2.0).argsort(dim=1, stable=True)
    chosen: Tensor = order.argsort(1) < counts[:, None]
    return chosen


def flat_positions(marked: Tensor) -> Tensor:
    """Return the flat positions that are marked, ascending: ``[B, L] bool -> [N]``. It reads the
    values, so it runs on the host, in ``Objective.prepare``.
    """
    return marked.flatten().nonzero().squeeze(1)


def rows_at(values: Tensor, positions: Tensor) -> Tensor:
    """Return the values at flat positions: ``[B, L, ...], [N] -> [N, ...]``."""
    return values.flatten(0, 1).index_select(0, positions)


def put(tokens: Tensor, positions: Tensor, values: Tensor) -> Tensor:
    """Return the tokens with ``values`` at flat positions: ``[B, L], [N], [N] -> [B, L]``."""
    return tokens.flatten().scatter(0, positions, values).view_as(tokens)
