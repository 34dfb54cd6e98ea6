"""Hiding tokens from the noise of the batch."""

from __future__ import annotations

import torch

from road_ray.objectives.pretraining.mlm import MaskedLanguageModel
from tests.objectives.conftest import MASK, SPECIAL


def test_shares_are_those_asked_for(generator, batch):
    shares = {"choose_fraction": 0.5, "mask_fraction": 0.0}
    objective = MaskedLanguageModel(generator, special_ids=SPECIAL, mask_id=MASK, **shares)
    chosen, masked = objective.hide(batch)
    # Rows of 24, 17, 9, 4 and 3 tokens; two of each are special; 8.5 and 4.5 round to even.
    assert chosen.sum(1).tolist() == [12, 8, 4, 2, 1]
    assert torch.equal(masked, batch["input_ids"])
    objective.mask_fraction = 1.0
    chosen, masked = objective.hide(batch)
    assert (masked[chosen] == MASK).all()
