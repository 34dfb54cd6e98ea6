"""Put the tokens that a generator drew in their places, and decide which are replaced."""

from __future__ import annotations

import torch
from torch import Tensor


def corrupt(tokens: Tensor, chosen: Tensor, sampled: Tensor) -> tuple[Tensor, Tensor]:
    """Return the *unmasked* tokens with samples at chosen positions, and which are replaced:
    ``[B, L]`` each.

    A sample that equals the token counts as original. Source: Clark et al. 2020, section 2.
    """
    corrupted = torch.where(chosen, sampled, tokens)
    return corrupted, corrupted != tokens
