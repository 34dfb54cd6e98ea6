"""Loss, gradient and samples against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from road_ray.objectives.masking import sample
from road_ray.objectives.pretraining.parts.sampling import predict


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("spread", [1.0, 10.0, 100.0])
def test_loss_and_gradient_are_those_of_cross_entropy(dtype, spread):
    torch.manual_seed(0)
    logits = (torch.randn(40, 97) * spread).to(dtype)
    gold = torch.randint(0, 97, (40,))
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss, _, right, entropy = predict(ours, gold, torch.rand(40))
    reference = functional.cross_entropy(theirs.float(), gold, reduction="sum")
    assert_close(loss, reference, rtol=1e-5, atol=1e-4)
    (3 * loss).backward()
    (3 * reference).backward()
    assert ours.grad.dtype == dtype
    rounding = 1e-5 if dtype == torch.float32 else 2**-7
    assert_close(ours.grad, theirs.grad, rtol=rounding, atol=1e-6)
    assert right == (logits.argmax(-1) == gold).sum()
    expected = torch.distributions.Categorical(logits=logits.float()).entropy().sum()
    assert_close(entropy, expected, rtol=1e-4, atol=1e-2)


def test_only_the_loss_carries_a_gradient():
    logits = torch.randn(6, 11, requires_grad=True)
    loss, *others = predict(logits, torch.zeros(6, dtype=torch.long), torch.rand(6))
    assert loss.requires_grad
    assert not any(other.requires_grad for other in others)


def test_samples_are_those_of_the_sampler():
    torch.manual_seed(0)
    logits, noise = torch.randn(50, 31), torch.rand(50)
    found = predict(logits, torch.zeros(50, dtype=torch.long), noise)
    assert torch.equal(found.sampled, sample(logits, noise))


def test_no_positions_make_no_loss_and_no_samples():
    logits = torch.randn(0, 11, requires_grad=True)
    loss, sampled, right, _ = predict(logits, torch.zeros(0, dtype=torch.long), torch.rand(0))
    loss.backward()
    assert (float(loss.detach()), sampled.shape, int(right), logits.grad.shape) == (
        0,
        (0,),
        0,
        (0, 11),
    )


def test_a_logit_that_is_not_finite_makes_a_loss_that_is_not_finite():
    logits = torch.zeros(2, 5)
    logits[0, 1] = float("nan")
    loss, sampled, *_ = predict(logits, torch.tensor([0, 1]), torch.rand(2))
    assert not loss.isfinite()
    assert (sampled < 5).all()  # the discriminator looks them up before the loss is judged
