"""What every rule promises, held for all that are registered: a new rule inherits these tests."""

import pytest
import torch
from torch.testing import assert_close

from road_ray.distillation.weighting import WEIGHTINGS, combine, resolve

M, B, C, L = 3, 6, 4, 9

SHAPES = {"classes": ((M, B, C), (B,)), "spans": ((M, B, 2, L), (B, 2))}


def case(shape: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Random teachers; row 0 has none right, row 1 all right, row 2 an unknown gold."""
    generator = torch.Generator().manual_seed(0)
    logits_shape, targets_shape = SHAPES[shape]
    logits = torch.randn(logits_shape, generator=generator)
    targets = torch.randint(logits_shape[-1], targets_shape, generator=generator)
    logits[:, 0].scatter_(-1, targets[0].expand(logits[:, 0].shape[:-1]).unsqueeze(-1), -9.0)
    logits[:, 1].scatter_(-1, targets[1].expand(logits[:, 1].shape[:-1]).unsqueeze(-1), 9.0)
    targets[2] = -100
    return logits, targets


@pytest.fixture(params=sorted(WEIGHTINGS))
def rule(request):
    return resolve(request.param)


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_have_the_promised_shape_and_are_finite(rule, shape):
    logits, targets = case(shape)
    weights = rule(logits, targets)
    assert weights.shape == logits.shape[:-1]
    assert weights.dtype == torch.float32
    assert weights.isfinite().all()
    assert (weights >= 0).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_preserve_the_mean_where_somebody_is_right_or_gold_is_unknown(rule, shape):
    logits, targets = case(shape)
    somebody = (logits.argmax(-1) == targets).any(0) | (targets == -100)
    assert somebody.any()
    assert not somebody.all()
    sums = rule(logits, targets).sum(0)
    assert_close(sums[somebody], torch.full_like(sums[somebody], M))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_rule_is_pure(rule, shape):
    logits, targets = case(shape)
    before = logits.clone(), targets.clone()
    first, second = rule(logits, targets), rule(logits, targets)
    assert torch.equal(first, second)
    assert torch.equal(logits, before[0])
    assert torch.equal(targets, before[1])


@pytest.mark.parametrize("shape", SHAPES)
def test_teachers_that_agree_are_returned_as_they_are_when_right(rule, shape):
    logits, targets = case(shape)
    same = logits[:1].expand_as(logits)
    soft = combine(same, rule(same, targets))
    assert soft.shape == logits.shape[1:]
    assert_close(soft[1], same[0, 1])


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_do_not_look_at_each_other(rule, shape):
    logits, targets = case(shape)
    whole = rule(logits, targets)
    assert_close(rule(logits[:, 3:4], targets[3:4]), whole[:, 3:4])


def test_regression_is_weighed_without_classes(rule):
    weights = rule(torch.randn(M, B, 1), torch.randn(B))
    assert weights.shape == (M, B)
    assert_close(weights.sum(0), torch.full((B,), float(M)))
