"""ELECTRA 15%: the same corruption, judged at fewer positions."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from road_ray.models.language_model import detection_scores
from road_ray.objectives.pretraining.electra import Electra, ElectraMasked, detection_losses
from tests.objectives.conftest import MASK, SPECIAL


def test_only_chosen_positions_count(generator, discriminator, batch):
    options = {"special_ids": SPECIAL, "mask_id": MASK}
    terms = ElectraMasked(generator, discriminator, **options)(batch).terms
    assert int(terms["discriminator"].count) == int(terms["generator"].count) == 10
    electra = Electra(generator, discriminator, **options)
    made = electra.corrupted(electra.prepare(batch))
    scores = detection_scores(discriminator, made.tokens, batch)
    expected = detection_losses(scores, made.replaced)[made.chosen].sum()
    assert_close(terms["discriminator"].total, expected)
    assert_close(terms["generator"].total, electra(batch).terms["generator"].total)
    assert terms["discriminator"].weight == 50.0


def test_scores_elsewhere_get_no_gradient(generator, discriminator, batch):
    objective = ElectraMasked(generator, discriminator, special_ids=SPECIAL, mask_id=MASK)
    seen = []
    discriminator.discriminator_predictions.register_forward_hook(
        lambda module, given, scores: seen.append(scores.retain_grad() or scores)
    )
    objective(batch).terms["discriminator"].total.backward()
    chosen, _ = objective.hide(objective.prepare(batch))
    assert torch.equal(seen[0].grad != 0, chosen)
