"""Masked and replaced tokens, against counting."""

from __future__ import annotations

import torch

from road_ray.objectives.masking.corruption import corrupt, mask

MASK = 4


def test_85_of_100_chosen_positions_are_masked_and_15_stay():
    torch.manual_seed(0)
    tokens = torch.randint(5, 90, (200, 500))
    chosen = torch.ones_like(tokens, dtype=torch.bool)
    masked = mask(tokens, chosen, mask_id=MASK)
    assert chosen.sum() == 100_000
    share = (masked == MASK).float().mean().item()
    assert abs(share - 0.85) < 4 * (0.85 * 0.15 / 1e5) ** 0.5
    assert torch.equal(masked[masked != MASK], tokens[masked != MASK])


def test_what_is_not_chosen_stays():
    tokens = torch.randint(5, 90, (3, 10))
    nothing = torch.zeros_like(tokens, dtype=torch.bool)
    assert torch.equal(mask(tokens, nothing, mask_id=MASK, mask_fraction=1.0), tokens)


def test_a_lucky_sample_counts_as_original():
    tokens = torch.tensor([[2, 10, 11, 12, 3]])
    chosen = torch.tensor([[False, True, False, True, False]])
    corrupted, replaced = corrupt(tokens, chosen, torch.tensor([[9, 10, 9, 20, 9]]))
    assert corrupted.tolist() == [[2, 10, 11, 20, 3]]
    assert replaced.tolist() == [[False, False, False, True, False]]
