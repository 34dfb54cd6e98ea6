"""What every rule promises, held for all that are registered: a new rule inherits these tests."""

import pytest
import torch
from torch.testing import assert_close

from road_ray.distillation.weighting import MERGES, WEIGHTINGS, options_of, resolve, soften

M, B, C, L = 3, 6, 4, 9

SHAPES = {
    "classes": ((M, B, C), (B,)),
    "spans": ((M, B, 2, L), (B, 2)),
    "tags": ((M, B, L, C), (B, L)),
    "choices": ((M, B, 2), (B,)),
}
every_shape = pytest.mark.parametrize("shape", SHAPES)


def case(shape: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Random teachers; row 0 has none right, row 1 all right, row 2 an unknown gold."""
    generator = torch.Generator().manual_seed(0)
    logits_shape, targets_shape = SHAPES[shape]
    logits = torch.randn(logits_shape, generator=generator)
    targets = torch.randint(logits_shape[-1], targets_shape, generator=generator)
    for row, value in ((0, -9.0), (1, 9.0)):
        at = targets[row].expand(logits[:, row].shape[:-1]).unsqueeze(-1)
        logits[:, row] = logits[:, row].scatter(-1, at, value)
    targets[2] = -100
    if shape == "tags":
        targets[3, ::2] = -100
    return logits, targets


def joint(rules):
    """Every rule, and once more those that can judge an example as a whole."""
    for name in sorted(rules):
        yield pytest.param((name, {}), id=name)
        if "span_correctness" in options_of(name):
            yield pytest.param((name, {"span_correctness": "joint"}), id=f"{name}-joint")


@pytest.fixture(params=joint({**WEIGHTINGS, **MERGES}))
def rule(request):
    name, options = request.param
    return resolve(name, **options)


@pytest.fixture(params=joint(WEIGHTINGS))
def weigh(request):
    name, options = request.param
    return resolve(name, **options)


@every_shape
def test_weights_have_the_promised_shape_and_are_finite(weigh, shape):
    logits, targets = case(shape)
    weights = weigh(logits, targets)
    assert weights.shape == logits.shape[:-1]
    assert weights.dtype == torch.float32
    assert weights.isfinite().all()
    assert (weights >= 0).all()


@every_shape
def test_weights_preserve_the_mean_where_everybody_is_right_or_gold_is_unknown(weigh, shape):
    logits, targets = case(shape)
    weights = weigh(logits, targets)
    for row in (1, 2):
        assert_close(weights[:, row].sum(0), torch.full_like(weights[0, row], M))


@pytest.mark.parametrize("name", sorted({*WEIGHTINGS} - {"entropy"}))
@every_shape
def test_weights_are_equal_where_gold_is_unknown(name, shape):
    logits, targets = case(shape)
    assert_close(resolve(name)(logits, targets)[:, 2], torch.ones_like(logits[:, 2, ..., 0]))


@every_shape
def test_entropy_reads_no_labels(shape):
    logits, targets = case(shape)
    weights = resolve("entropy")(logits, targets)
    assert torch.equal(weights, resolve("entropy")(logits, torch.full_like(targets, -100)))
    assert not torch.allclose(weights[:, 2], torch.ones_like(weights[:, 2]))


@pytest.mark.parametrize("name", sorted(WEIGHTINGS))
@every_shape
def test_weights_preserve_the_mean_where_somebody_is_right(name, shape):
    logits, targets = case(shape)
    somebody = (logits.argmax(-1) == targets).any(0)
    assert somebody.any()
    assert not somebody.all()
    sums = resolve(name)(logits, targets).sum(0)
    assert_close(sums[somebody], torch.full_like(sums[somebody], M))


@every_shape
def test_soft_logits_have_the_promised_shape_and_are_finite(rule, shape):
    logits, targets = case(shape)
    soft = soften(rule, logits.half(), targets)
    assert soft.logits.shape == logits.shape[1:]
    assert soft.logits.dtype == torch.float32
    assert soft.logits.isfinite().all()
    assert soft.keep.shape == targets.shape
    assert soft.keep.dtype == torch.bool
    assert soft.keep[1:3].all()
    assert (soft.weights is None) == (not hasattr(rule, "keywords"))


@every_shape
def test_a_rule_is_pure(rule, shape):
    logits, targets = case(shape)
    before = logits.clone(), targets.clone()
    first, second = rule(logits, targets), rule(logits, targets)
    assert torch.equal(first, second)
    assert torch.equal(logits, before[0])
    assert torch.equal(targets, before[1])


@every_shape
def test_teachers_that_agree_are_returned_as_they_are_when_right(rule, shape):
    logits, targets = case(shape)
    same = logits[:1].expand_as(logits)
    soft = soften(rule, same, targets).logits
    assert_close(soft[1].softmax(-1), same[0, 1].softmax(-1))


@every_shape
def test_rows_do_not_look_at_each_other(rule, shape):
    logits, targets = case(shape)
    whole = soften(rule, logits, targets)
    alone = soften(rule, logits[:, 3:4], targets[3:4])
    assert_close(alone.logits, whole.logits[3:4])
    assert torch.equal(alone.keep, whole.keep[3:4])


@every_shape
def test_the_order_of_the_teachers_does_not_matter(rule, shape):
    logits, targets = case(shape)
    assert_close(soften(rule, logits.flip(0), targets).logits, soften(rule, logits, targets).logits)


@every_shape
def test_one_teacher_that_is_right_is_returned_as_it_is(rule, shape):
    logits, targets = case(shape)
    soft = soften(rule, logits[:1], targets).logits
    assert_close(soft[1].softmax(-1), logits[0, 1].softmax(-1))


def test_what_is_not_allowed_has_no_say(rule):
    """Padding and question of a span, whatever the teachers say there."""
    logits, targets = case("spans")
    targets = targets.where(targets < 0, targets % 5)
    allowed = (torch.arange(L) < 5).expand(B, 1, L)
    wild = logits.clone()
    wild[..., 5:] = 50.0 * torch.randn(M, B, 2, L - 5)
    wild[0, ..., 5:] = -torch.inf
    soft, narrow = soften(rule, wild, targets, allowed), soften(rule, logits[..., :5], targets)
    assert_close(soft.logits[..., :5], narrow.logits)
    assert torch.equal(soft.keep, narrow.keep)
    assert soft.logits[..., :5].isfinite().all()


def test_regression_is_the_plain_mean(rule):
    logits = torch.randn(M, B, 1)
    soft = soften(rule, logits, torch.randn(B))
    assert_close(soft.logits, logits.mean(0))
    assert soft.keep.all()


@pytest.mark.parametrize("name", sorted(WEIGHTINGS))
def test_regression_is_weighed_without_classes(name):
    weights = resolve(name)(torch.randn(M, B, 1), torch.randn(B))
    assert weights.shape == (M, B)
    assert_close(weights.sum(0), torch.full((B,), float(M)))
