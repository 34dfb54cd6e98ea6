"""Candidates: how they are drawn, and what they score."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from road_ray.objectives.pretraining.mc_bert import candidate_logits
from road_ray.objectives.pretraining.teams import without_replacement


def test_draws_without_replacement_differ_and_never_are_the_gold():
    torch.manual_seed(0)
    logits = torch.randn(500, 12) * 3
    gold = torch.randint(0, 12, (500,))
    drawn = without_replacement(logits, gold, torch.rand(500, 6))
    assert not (drawn == gold[:, None]).any()
    assert all(len(set(row)) == 6 for row in drawn.tolist())


def test_draws_without_replacement_follow_the_renormalised_softmax():
    torch.manual_seed(0)
    chances = torch.tensor([0.5, 0.2, 0.2, 0.1])
    logits = chances.log().expand(40_000, 4)
    drawn = without_replacement(
        logits, torch.zeros(40_000, dtype=torch.long), torch.rand(40_000, 2)
    )
    first = torch.bincount(drawn[:, 0], minlength=4) / 40_000
    assert_close(first, torch.tensor([0.0, 0.4, 0.4, 0.2]), rtol=0, atol=0.01)
    # Second = 3: after 1 or 2 (0.4 each) it has 0.1 of 0.3.
    second = (drawn[:, 1] == 3).float().mean()
    assert_close(second, torch.tensor(0.8 / 3), rtol=0, atol=0.01)


def test_a_generator_that_is_sure_of_the_gold_leaves_even_chances():
    logits = torch.tensor([[200.0, 0.0, 0.0, 0.0, 0.0]])
    drawn = without_replacement(logits, torch.tensor([0]), torch.tensor([[0.1, 0.5, 0.9]]))
    assert len(set(drawn[0].tolist()) | {0}) == 4


def test_scores_are_products_with_embeddings():
    torch.manual_seed(0)
    state, table = torch.randn(3, 4), torch.randn(9, 4)
    candidates = torch.tensor([[0, 8], [1, 1], [5, 2]])
    expected = (state @ table.T).gather(1, candidates)
    assert_close(candidate_logits(state, table, candidates), expected)
