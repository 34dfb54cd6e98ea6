"""What every rule promises, held for all that have a name: a new rule inherits these tests."""

from inspect import signature

import pytest
import torch
from torch.testing import assert_close

from road_ray.distillation.weighting import RULES, Merge, mean, resolve, soften
from road_ray.errors import ConfigError
from road_ray.testing import check_rule, rule_case

M, B, L = 3, 6, 9
WEIGHTINGS = sorted(name for name in RULES if not isinstance(resolve(name), Merge))
every_kind = pytest.mark.parametrize("kind", ["classes", "spans", "tags", "choices"])


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_rule_keeps_the_contract(name):
    check_rule(name)
    if "span_correctness" in signature(RULES[name]).parameters:
        check_rule(name, span_correctness="joint")


@pytest.mark.parametrize("name", sorted({*WEIGHTINGS} - {"entropy"}))
@every_kind
def test_weights_are_equal_where_gold_is_unknown(name, kind):
    weights = resolve(name)(*rule_case(kind))
    assert_close(weights[:, 2], torch.ones_like(weights[:, 2]))


@every_kind
def test_entropy_reads_no_labels(kind):
    logits, targets = rule_case(kind)
    weights = resolve("entropy")(logits, targets)
    assert torch.equal(weights, resolve("entropy")(logits, torch.full_like(targets, -100)))
    assert not torch.allclose(weights[:, 2], torch.ones_like(weights[:, 2]))


@pytest.mark.parametrize("name", sorted(RULES))
def test_what_is_not_allowed_has_no_say(name):
    """Padding and question of a span, whatever the teachers say there."""
    rule = resolve(name)
    logits, targets = rule_case("spans")
    targets = targets.where(targets < 0, targets % 5)
    allowed = (torch.arange(L) < 5).expand(B, 1, L)
    wild = logits.clone()
    wild[..., 5:] = 50.0 * torch.randn(M, B, 2, L - 5)
    wild[0, ..., 5:] = -torch.inf
    masked = wild.masked_fill(~allowed, -torch.inf)
    soft, narrow = soften(rule, wild, targets, masked), soften(rule, logits[..., :5], targets)
    assert_close(soft.logits[..., :5], narrow.logits)
    assert torch.equal(soft.keep, narrow.keep)


@pytest.mark.parametrize("name", sorted(RULES))
def test_regression_is_the_plain_mean(name):
    logits = torch.randn(M, B, 1)
    soft = soften(resolve(name), logits, torch.randn(B))
    assert_close(soft.logits, logits.mean(0))
    assert soft.keep.all()


def first_teacher_only(logits, targets):
    weights = torch.zeros(logits.shape[:-1])
    weights[0] = len(logits)
    return weights


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (lambda logits, targets: mean(logits, targets) * 2, "do not sum"),
        (lambda logits, targets: mean(logits, targets) - 2, "negative"),
        (lambda logits, targets: mean(logits, targets) * torch.nan, "not finite"),
        (lambda logits, targets: torch.rand(logits.shape[1:]), "two calls differ"),
        (lambda logits, targets: logits.mul_(2)[0], "changes its arguments|two calls differ"),
        (lambda logits, targets: logits.mean((0, 1)).expand(logits.shape[1:]), "other rows"),
        (first_teacher_only, "the order of the teachers"),
    ],
)
def test_a_rule_that_breaks_the_contract_is_told(own, rule, problem):
    own(rule=rule)
    with pytest.raises(AssertionError, match=problem):
        check_rule("own_parts:rule")


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (3, "not a callable"),
        (lambda logits: logits, "1 positional argument"),
        (lambda logits, targets: logits.sum(), r"returns \[\]"),
        (lambda logits, targets, *, strength: mean(logits, targets), "'strength'"),
    ],
)
def test_what_is_no_rule_is_refused(own, rule, problem):
    own(rule=rule)
    with pytest.raises(ConfigError, match=problem) as told:
        resolve("own_parts:rule")
    assert "weighting.rule = own_parts:rule" in str(told.value)
    assert "check_rule" in str(told.value)
