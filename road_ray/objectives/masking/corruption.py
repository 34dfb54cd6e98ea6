"""Corruption of tokens at chosen positions: [MASK], or what a generator drew."""

from __future__ import annotations

import torch
from torch import Tensor


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


def corrupt(tokens: Tensor, chosen: Tensor, sampled: Tensor) -> tuple[Tensor, Tensor]:
    """Return the *unmasked* tokens with samples at chosen positions, and which are replaced:
    ``[B, L]`` each.

    A sample that equals the token counts as original. Source: Clark et al. 2020, section 2.
    """
    corrupted = torch.where(chosen, sampled, tokens)
    return corrupted, corrupted != tokens
