"""Choosing positions, against counting and brute force."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from road_ray.objectives.masking.positions import choose

PAD, CLS, SEP, MASK = 0, 2, 3, 4
SPECIAL = (PAD, CLS, SEP, MASK)


def rows(lengths, width, seed=0):
    """Rows ``[CLS] words [SEP]`` with a [MASK] that was in the text, padded to ``width``."""
    chance = torch.Generator().manual_seed(seed)
    tokens = torch.randint(5, 90, (len(lengths), width), generator=chance)
    lengths = torch.tensor(lengths)
    attention = (torch.arange(width) < lengths[:, None]).long()
    tokens[:, 0] = CLS
    tokens[:, 2] = MASK
    tokens[torch.arange(len(lengths)), lengths - 1] = SEP
    return tokens * attention, attention


def test_special_tokens_and_padding_are_never_chosen():
    tokens, attention = rows([40, 30, 12, 5] * 50, 40)
    chosen = choose(tokens, attention, special_ids=SPECIAL, fraction=0.5)
    assert not (chosen & ~attention.bool()).any()
    assert not (chosen & torch.isin(tokens, torch.tensor(SPECIAL))).any()


@pytest.mark.parametrize("fraction", [0.15, 0.25, 0.5])
def test_the_count_is_the_rounded_share_of_all_real_tokens(fraction):
    lengths = list(range(4, 41))
    tokens, attention = rows(lengths, 40)
    counts = choose(tokens, attention, special_ids=SPECIAL, fraction=fraction).sum(1).tolist()
    for length, count in zip(lengths, counts, strict=True):
        candidates = length - 3  # without [CLS], [SEP] and the [MASK] in the text
        assert count == min(max(1, round(fraction * length)), candidates)


def test_a_row_gives_no_more_than_it_has():
    tokens, attention = rows([5], 8)
    tokens[0, 1] = CLS
    assert choose(tokens, attention, special_ids=SPECIAL, fraction=1.0).sum() == 1
    tokens[0, 3] = CLS
    assert choose(tokens, attention, special_ids=SPECIAL, fraction=1.0).sum() == 0


def test_without_special_ids_everything_real_may_be_chosen():
    tokens, attention = rows([6], 8)
    assert choose(tokens, attention, special_ids=(), fraction=1.0).sum() == 6


def test_the_smallest_noise_is_chosen_and_ties_do_not_change_the_count():
    tokens, attention = torch.full((1, 10), 7), torch.ones(1, 10, dtype=torch.long)
    noise = torch.tensor([[0.9, 0.1, 0.8, 0.2, 0.7, 0.3, 0.6, 0.4, 0.5, 0.95]])
    chosen = choose(tokens, attention, noise, special_ids=SPECIAL, fraction=0.3)
    assert chosen.nonzero()[:, 1].tolist() == [1, 3, 5]
    tied = choose(tokens, attention, torch.zeros(1, 10), special_ids=SPECIAL, fraction=0.3)
    assert tied.nonzero()[:, 1].tolist() == [0, 1, 2]


def test_every_candidate_is_chosen_equally_often():
    torch.manual_seed(0)
    tokens, attention = torch.full((4000, 20), 7), torch.ones(4000, 20, dtype=torch.long)
    counts = choose(tokens, attention, special_ids=SPECIAL).sum(0)
    assert counts.sum() == 4000 * 3
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3
