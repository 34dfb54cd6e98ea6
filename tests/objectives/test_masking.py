"""Positions, corruption and sampling."""

import pytest
import torch
from scipy import stats

from road_ray.objectives.masking import choose, corrupt, invert, mask, sample
from tests.tiny_encoder import padded_batch

PAD, CLS, SEP, MASK = 0, 2, 3, 4
SPECIAL = (PAD, CLS, SEP, MASK)
JUST_BELOW_1 = 1 - 2**-24


def rows(*lengths):
    """Rows ``[CLS] words [SEP]`` with a [MASK] that was in the text."""
    batch = padded_batch(*lengths)
    tokens = batch["input_ids"]
    tokens[:, 0], tokens[:, 2] = CLS, MASK
    tokens[torch.arange(len(lengths)), torch.tensor(lengths) - 1] = SEP
    return tokens, batch["attention_mask"]


def test_special_tokens_and_padding_are_never_chosen():
    tokens, attention = rows(*[40, 30, 12, 5] * 50)
    chosen = choose(tokens, attention, special_ids=SPECIAL, fraction=0.5)
    assert not (chosen & ~attention.bool()).any()
    assert not (chosen & torch.isin(tokens, torch.tensor(SPECIAL))).any()


@pytest.mark.parametrize("fraction", [0.15, 0.25, 0.5])
def test_the_count_is_the_rounded_share_of_all_real_tokens(fraction):
    lengths = range(4, 41)
    tokens, attention = rows(*lengths)
    counts = choose(tokens, attention, special_ids=SPECIAL, fraction=fraction).sum(1).tolist()
    for length, count in zip(lengths, counts, strict=True):
        candidates = length - 3  # without [CLS], [SEP] and the [MASK] in the text
        assert count == min(max(1, round(fraction * length)), candidates)


def test_a_row_gives_no_more_than_it_has():
    tokens, attention = rows(5)
    tokens[0, 1] = CLS
    assert choose(tokens, attention, special_ids=SPECIAL, fraction=1.0).sum() == 1
    tokens[0, 3] = CLS
    assert choose(tokens, attention, special_ids=SPECIAL, fraction=1.0).sum() == 0


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


def test_85_of_100_chosen_positions_are_masked_and_15_stay():
    torch.manual_seed(0)
    tokens = torch.randint(5, 90, (200, 500))
    chosen = torch.ones_like(tokens, dtype=torch.bool)
    masked = mask(tokens, chosen, mask_id=MASK)
    assert chosen.sum() == 100_000
    share = (masked == MASK).float().mean().item()
    assert abs(share - 0.85) < 4 * (0.85 * 0.15 / 1e5) ** 0.5
    assert torch.equal(masked[masked != MASK], tokens[masked != MASK])


def test_a_lucky_sample_counts_as_original():
    tokens = torch.tensor([[2, 10, 11, 12, 3]])
    chosen = torch.tensor([[False, True, False, True, False]])
    corrupted, replaced = corrupt(tokens, chosen, torch.tensor([[9, 10, 9, 20, 9]]))
    assert corrupted.tolist() == [[2, 10, 11, 20, 3]]
    assert replaced.tolist() == [[False, False, False, True, False]]


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_samples_follow_the_softmax(temperature):
    torch.manual_seed(0)
    logits = torch.randn(23) * 2
    drawn = sample(logits.expand(200, 200, 23), temperature=temperature)
    assert drawn.shape == (200, 200)
    counts = torch.bincount(drawn.flatten(), minlength=23)
    expected = torch.softmax(logits.double() / temperature, -1) * 40_000
    assert stats.chisquare(counts.numpy(), expected.numpy()).pvalue > 1e-3


def test_samples_carry_no_gradient_and_bf16_is_sampled_in_fp32():
    logits = torch.randn(4, 11, requires_grad=True)
    noise = torch.rand(4)
    assert not sample(logits, noise).requires_grad
    half = logits.detach().bfloat16()
    assert torch.equal(sample(half, noise), sample(half.float(), noise))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10, 97, 100])
def test_inversion_equals_walking_along_the_distribution(size):
    torch.manual_seed(size)
    probabilities = torch.softmax(torch.randn(300, size, dtype=torch.float64), -1)
    noise = torch.rand(300, dtype=torch.float64)
    walked = (probabilities.cumsum(-1) <= noise[:, None]).sum(-1)
    assert torch.equal(invert(probabilities, noise), walked)


@pytest.mark.parametrize("size", [1, 5, 50, 97])
@pytest.mark.parametrize("number", [0.0, 1e-30, 0.5, JUST_BELOW_1])
def test_no_noise_draws_an_id_without_probability(size, number):
    torch.manual_seed(size)
    probabilities = torch.softmax(torch.randn(400, size) * 3, -1)
    zero = torch.rand(400, size) < 0.8
    zero[:, 0] |= size > 1  # neither the first id
    zero[:200, -1] |= size > 1  # nor, in half of the rows, the last
    zero[:100, size // 2 + 1 :] = True  # nor, in some, whole blocks at the end
    zero[torch.arange(400), torch.randint(0, size, (400,)) // 2] = False
    probabilities = probabilities.masked_fill(zero, 0)
    drawn = invert(probabilities, torch.full((400,), number))
    assert (probabilities.gather(1, drawn[:, None]) > 0).all()
