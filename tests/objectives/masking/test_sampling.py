"""Sampling, against brute force and chi-square."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from road_ray.objectives.masking.sampling import invert, sample

JUST_BELOW_1 = torch.nextafter(torch.tensor(1.0), torch.tensor(0.0)).item()


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


def test_random_noise_never_draws_an_id_without_probability():
    torch.manual_seed(0)
    probabilities = torch.softmax(torch.randn(20_000, 50) * 4, -1)
    probabilities = probabilities.masked_fill(torch.rand(20_000, 50) < 0.7, 0)
    probabilities[:, 13] += 1e-9
    drawn = invert(probabilities, torch.rand(20_000))
    assert (probabilities.gather(1, drawn[:, None]) > 0).all()


def test_no_rows_give_no_ids():
    assert invert(torch.zeros(0, 10), torch.zeros(0)).shape == (0,)
