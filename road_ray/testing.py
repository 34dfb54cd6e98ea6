"""Contract tests for what is added by ``package.module:name``; call them in tests of your own."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.testing import assert_close

from road_ray.data.features.examples_and_features import UNKNOWN
from road_ray.distillation.weighting import Rule, resolve, soften

_TEACHERS, _ROWS, _CLASSES, _LENGTH = 3, 6, 4, 9
_SHAPES = {  # of the teachers' logits
    "classes": (_TEACHERS, _ROWS, _CLASSES),
    "spans": (_TEACHERS, _ROWS, 2, _LENGTH),
    "tags": (_TEACHERS, _ROWS, _LENGTH, _CLASSES),
    "choices": (_TEACHERS, _ROWS, 2),
}


def check_rule(name: str, **options: object) -> None:
    """Raise ``AssertionError`` unless ``weighting.rule=name`` keeps the contract of a rule, for
    classes, answer spans with padding, tags, choices and regressions.

    The rule must be a pure function whose result is finite, depends neither on the order of the
    teachers nor on other rows, and has the shape of weights or of soft logits. Weights must not be
    negative and must sum to the number of teachers where all are right or the label is unknown.
    One teacher that is right must be returned as it is. Raises ``ConfigError`` for what is no rule.
    """
    rule = resolve(name, **options)
    for kind in _SHAPES:
        logits, targets = rule_case(kind)
        _check(rule, kind, logits, targets, torch.tensor([1, 2]))
        one = soften(rule, logits[:1], targets).logits[1].softmax(-1)
        assert_close(one, logits[0, 1].softmax(-1), msg=f"{kind}: one right teacher is changed")
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(_TEACHERS, _ROWS, 1, generator=generator)
    targets = torch.randn(_ROWS, generator=generator)
    _check(rule, "regression", logits, targets, torch.arange(_ROWS))


def rule_case(kind: str) -> tuple[Tensor, Tensor]:
    """Return logits and targets of a kind: in row 0 no teacher is right, in row 1 all are, in row
    2 the label is unknown. Spans have logits of minus infinity, as behind the end of a row.
    """
    generator, shape = torch.Generator().manual_seed(0), _SHAPES[kind]
    classes = shape[-1] - 2 if kind == "spans" else shape[-1]
    logits = torch.randn(shape, generator=generator)
    targets = torch.randint(classes, shape[1:-1], generator=generator)
    for row, value in ((0, -9.0), (1, 9.0)):
        at = targets[row].expand(logits[:, row].shape[:-1]).unsqueeze(-1)
        logits[:, row] = logits[:, row].scatter(-1, at, value)
    logits[..., classes:] = -torch.inf
    targets[2] = UNKNOWN
    if kind == "tags":
        targets[3, ::2] = UNKNOWN
    return logits, targets


def _check(rule: Rule, kind: str, logits: Tensor, targets: Tensor, whole: Tensor) -> None:
    """Check one kind; the weights of the rows ``whole`` must sum to the number of teachers."""
    before = logits.clone(), targets.clone()
    soft, again = soften(rule, logits, targets), soften(rule, logits, targets)
    assert soft.logits.shape == logits.shape[1:], f"{kind}: soft logits {list(soft.logits.shape)}"
    finite = logits.isfinite().all(0)
    assert soft.logits[finite].isfinite().all(), f"{kind}: soft logits are not finite"
    if (weights := soft.weights) is not None:
        assert weights.shape == logits.shape[:-1], f"{kind}: weights {list(weights.shape)}"
        assert weights.isfinite().all(), f"{kind}: weights are not finite"
        assert (weights >= 0).all(), f"{kind}: a weight is negative"
        total = weights[:, whole].float().sum(0)
        expected = torch.full_like(total, len(logits))
        assert_close(total, expected, msg=f"{kind}: weights do not sum to the number of teachers")
    assert torch.equal(soft.logits, again.logits), f"{kind}: two calls differ"
    is_same = torch.equal(logits, before[0]) and torch.equal(targets, before[1])
    assert is_same, f"{kind}: the rule changes its arguments"
    turned = soften(rule, logits.flip(0), targets).logits
    assert_close(turned, soft.logits, msg=f"{kind}: the order of the teachers matters")
    alone = soften(rule, logits[:, 3:4], targets[3:4]).logits
    assert_close(alone, soft.logits[3:4], msg=f"{kind}: other rows matter")
