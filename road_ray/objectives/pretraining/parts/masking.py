"""Masking: choice of the positions to predict, and [MASK] at most of them.

All randomness is an argument of uniform numbers, so any number of workers, and a resumed run, mask
and sample the same tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from road_ray.data.batching import Batch
from road_ray.objectives.base import Objective


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

    Drawn uniformly without replacement: the positions with the smallest ``noise`` ``[B, L]``.
    Padding and the ids in ``special_ids`` are never chosen, so a row may have fewer.
    Source: Clark et al. 2020, section 3.1; google electra, pretrain_helpers.py (which draws with
    replacement).
    """
    if noise is None:
        noise = torch.rand(tokens.shape, device=tokens.device)
    special = torch.tensor(list(special_ids), dtype=tokens.dtype, device=tokens.device)
    candidates = attention_mask.bool() & ~torch.isin(tokens, special)
    wanted = (attention_mask.sum(1).double() * fraction).round().long().clamp(min=1)
    wanted = torch.minimum(wanted, candidates.sum(1))
    # Rank among candidates: noise beyond 1 puts the others last.
    order = noise.masked_fill(~candidates, 2.0).argsort(dim=1, stable=True)
    chosen: Tensor = order.argsort(1) < wanted[:, None]
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


def mask(
    tokens: Tensor,
    chosen: Tensor,
    noise: Tensor | None = None,
    *,
    mask_id: int,
    mask_fraction: float = 0.85,
) -> Tensor:
    """Return tokens ``[B, L]`` with [MASK] at ``mask_fraction`` of the chosen positions.

    Source: google electra, pretrain_helpers.py (85 / 15, never a random token).
    """
    if noise is None:
        noise = torch.rand(tokens.shape, device=tokens.device)
    return torch.where(chosen & (noise < mask_fraction), mask_id, tokens)


class MaskingObjective(Objective):
    """Objective that chooses positions and masks most of them, by the noise of the batch.

    Source of the defaults: google electra, pretrain_helpers.py.
    """

    def __init__(
        self,
        *,
        special_ids: Sequence[int],
        mask_id: int,
        choose_fraction: float = 0.15,
        mask_fraction: float = 0.85,
    ) -> None:
        super().__init__()
        self.special_ids = tuple(special_ids)
        self.mask_id = mask_id
        self.choose_fraction = choose_fraction
        self.mask_fraction = mask_fraction

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch with its chosen positions, as ``Objective.prepare``."""
        if "chosen" in batch:
            return batch
        chosen = choose(
            batch["input_ids"],
            batch["attention_mask"],
            batch["noise"][0],
            special_ids=self.special_ids,
            fraction=self.choose_fraction,
        )
        return {**super().prepare(batch), "chosen": flat_positions(chosen)}

    def hide(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the chosen positions and the masked tokens, ``[B, L]`` each."""
        tokens, positions = batch["input_ids"], self.prepare(batch)["chosen"]
        chosen = torch.zeros_like(tokens, dtype=torch.bool).flatten()
        chosen = chosen.index_fill(0, positions, True).view_as(tokens)
        return chosen, mask(
            tokens,
            chosen,
            batch["noise"][1],
            mask_id=self.mask_id,
            mask_fraction=self.mask_fraction,
        )
