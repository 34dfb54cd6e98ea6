"""Draws by context and without it."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from road_ray.objectives.masking import sample
from road_ray.objectives.pretraining.parts.generator import Frequencies, draw, is_frozen


def test_frequencies_are_drawn_by_their_share_and_know_the_gold_by_it():
    torch.manual_seed(0)
    generator = Frequencies(torch.tensor([0.0, 1.0, 3.0]))
    gold = torch.ones(40_000, dtype=torch.long)
    drawn = draw(generator, None, gold, torch.rand(40_000))
    shares = torch.bincount(drawn.sampled, minlength=3) / 40_000
    assert_close(shares, torch.tensor([0.0, 0.25, 0.75]), rtol=0, atol=0.01)
    assert float(drawn.loss) == pytest.approx(40_000 * 1.386294, rel=1e-4)  # log 4
    assert float(drawn.entropy) / 40_000 == pytest.approx(0.562335, rel=1e-4)
    assert int(drawn.num_correct) == 0
    assert is_frozen(generator)


@pytest.mark.parametrize("kind", ["model", "frequencies"])
def test_the_gold_is_never_drawn_when_disallowed(generator, kind):
    torch.manual_seed(0)
    gold = torch.randint(0, 97, (200,))
    used = generator if kind == "model" else Frequencies(torch.ones(97))
    drawn = draw(used, torch.randn(200, 16), gold, torch.rand(200), disallow_correct=True)
    assert not (drawn.sampled == gold).any()
    lucky = draw(used, torch.randn(200, 16), drawn.sampled, torch.rand(200))
    assert torch.isfinite(lucky.loss)


def test_the_temperature_changes_the_samples_and_not_the_loss(generator):
    torch.manual_seed(0)
    hidden, gold, noise = torch.randn(50, 16), torch.zeros(50, dtype=torch.long), torch.rand(50)
    plain = draw(generator, hidden, gold, noise)
    hot = draw(generator, hidden, gold, noise, temperature=5.0)
    logits = generator.generator_lm_head(generator.generator_predictions(hidden))
    assert torch.equal(hot.sampled, sample(logits, noise, temperature=5.0))
    assert torch.equal(plain.sampled, sample(logits, noise))
    assert_close(plain.loss, hot.loss)


def test_a_model_is_frozen_when_nothing_of_it_learns(generator):
    assert not is_frozen(generator)
    assert is_frozen(generator.requires_grad_(False))
