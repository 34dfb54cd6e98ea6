"""Which tokens are replaced."""

from __future__ import annotations

import torch

from road_ray.objectives.masking.corruption import corrupt


def test_a_lucky_sample_counts_as_original():
    tokens = torch.tensor([[2, 10, 11, 12, 3]])
    chosen = torch.tensor([[False, True, False, True, False]])
    corrupted, replaced = corrupt(tokens, chosen, torch.tensor([[9, 10, 9, 20, 9]]))
    assert corrupted.tolist() == [[2, 10, 11, 20, 3]]
    assert replaced.tolist() == [[False, False, False, True, False]]
