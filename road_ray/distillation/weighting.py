"""Weighting rules: the combination of the logits of M teachers into soft logits.

A rule is a pure function ``(logits [M, B, ..., C], targets [B, ...])``. It returns weights
``[M, B, ...]``, non-negative, finite and summing to M where some teacher counts, by which
``combine`` averages the logits; or, because it averages something else, the soft logits
``[B, ..., C]`` themselves. ``soften`` applies a rule. Classification has no trailing axes; spans
are ``[M, B, 2, L]`` with targets ``[B, 2]`` (start and end; the position is the class), tags
``[M, B, L, C]`` with ``[B, L]``, choices ``[M, B, N]``: the code is the same for all.
``RULES`` has them by name; to add one here, enter it there.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from road_ray.data.examples import UNKNOWN
from road_ray.errors import ConfigError, DataError, RoadError
from road_ray.system.own_names import named_object, unfit

Rule = Callable[[Tensor, Tensor], Tensor]
"""A ``Merge``, or a rule with its options bound that returns weights:
``[M, B, ..., C], [B, ...] -> [M, B, ...]``.
"""
AllWrong = Literal["scale", "mean", "drop"]
SpanCorrectness = Literal["independent", "joint"]
_MAX_CROSS_ENTROPY = 1e4  # bound, because that of a class that is not allowed is infinite
_CONTRACT = (
    "a function of logits [M, B, ..., C] and targets [B, ...] that returns weights [M, B, ...] or "
    "soft logits [B, ..., C]; its options are keyword-only and have defaults\n"
    "  fix: correct it until road_ray.testing.check_rule passes"
)


class Merge(partial[Tensor]):
    """A rule with its options bound that returns soft logits:
    ``[M, B, ..., C], [B, ...] -> [B, ..., C]``.
    """


class SoftTargets(NamedTuple):
    """Soft targets of a batch. Where no teacher counts, ``keep`` is false and there is no loss."""

    logits: Tensor  # [B, ..., C], fp32
    keep: Tensor  # [B, ...] bool
    weights: Tensor | None  # [M, B, ...]; None for a rule without weights


def soften(
    rule: Rule, logits: Tensor, targets: Tensor, masked: Tensor | None = None
) -> SoftTargets:
    """Combine the teachers' logits by a rule. ``[M, B, ..., C], [B, ...] -> [B, ..., C]``.

    The rule reads ``masked``: the logits, with ``-inf`` at classes that do not count (padding,
    question). Its weights are applied to the raw logits, which the student's loss masks; a merging
    rule returns ``-inf`` there. Source of that order: ROaD part 1, Algorithm 2, our reading.
    A teacher whose logits of an example are NaN has no answer: the rule sees the others alone.
    """
    targets, masked = targets.to(logits.device), logits if masked is None else masked
    answered = ~logits.isnan().flatten(2).any(-1)  # [M, B]
    if bool(answered.all()):
        if isinstance(rule, Merge):
            return SoftTargets(
                rule(masked, targets), torch.ones_like(targets, dtype=torch.bool), None
            )
        weights = rule(masked, targets)
        return SoftTargets(combine(logits, weights), (weights != 0).any(0), weights)
    soft = torch.zeros_like(logits[0], dtype=torch.float32)
    weights = torch.zeros(logits.shape[:-1], device=logits.device)
    keep = torch.zeros_like(targets, dtype=torch.bool)
    for some in torch.unique(answered, dim=1).T:  # teachers that answer the same examples
        rows = (answered == some[:, None]).all(0).nonzero().squeeze(1)
        if not some.any():
            continue
        part = soften(rule, logits[some][:, rows], targets[rows], masked[some][:, rows])
        soft[rows], keep[rows] = part.logits, part.keep
        if part.weights is not None:  # whose mean over all teachers is that over these
            weights[some.nonzero(), rows] = part.weights.float() * (len(some) / some.sum())
    return SoftTargets(soft, keep, None if isinstance(rule, Merge) else weights)


def combine(logits: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted logits ``sum_m w_m z_m / M`` in fp32.
    ``[M, B, ..., C], [M, B, ...] -> [B, ..., C]``.

    Weights ``[M, B]`` or ``[M]`` hold for all trailing axes. Mask positions after this, never
    before. Source: ROaD part 1, Algorithm 2.
    """
    if weights.shape != logits.shape[: weights.ndim] or not 0 < weights.ndim < logits.ndim:
        raise DataError(
            f"weights {list(weights.shape)} do not fit the teachers' logits {list(logits.shape)}\n"
            f"  allowed: {list(logits.shape[:-1])} (teachers, batch, ...)"
        )
    weights = weights.to(logits.device, torch.float32)
    weights = weights.reshape(*weights.shape, *[1] * (logits.ndim - weights.ndim))
    # A teacher of weight 0 must not add 0 * -inf.
    weighted = torch.where(weights == 0, 0.0, weights * logits.float())
    return weighted.sum(0) / len(logits)


def _check(logits: Tensor, targets: Tensor) -> None:
    """Raise ``DataError`` unless logits are ``[M, B, ..., C]`` and targets ``[B, ...]``, without
    broadcasting, and for a label that is neither a class nor unknown.
    """
    if logits.ndim < 3 or targets.shape != logits.shape[1:-1] or not len(logits):
        raise DataError(
            f"teacher logits {list(logits.shape)} and targets {list(targets.shape)} do not fit\n"
            "  allowed: logits [M, B, C] and targets [B], or logits [M, B, 2, L] and targets [B, 2]"
        )
    classes = logits.shape[-1]
    invalid = (targets != UNKNOWN) & ((targets < 0) | (targets >= classes))
    if not targets.is_floating_point() and bool(invalid.any()):
        raise DataError(
            f"target {int(targets[invalid][0])} is outside the teachers' classes 0..{classes - 1}\n"
            f"  fix: correct the label, or mark it as unknown with {UNKNOWN}"
        )


def mean(logits: Tensor, targets: Tensor) -> Tensor:
    """Return ones, for a plain mean. ``[M, B, ..., C], [B, ...] -> [M, B, ...]``."""
    _check(logits, targets)
    return torch.ones(logits.shape[:-1], dtype=torch.float32, device=logits.device)


def mean_probabilities(logits: Tensor, targets: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Return logits whose softmax at ``temperature`` is the teachers' mean probability.

    ``[M, B, ..., C], [B, ...] -> [B, ..., C]``. A confident teacher outweighs two uncertain ones;
    in the mean of logits one teacher that excludes a class vetoes it. Regressions: plain mean.
    Source: Liu et al. 2019, MT-DNN-KD (at temperature 1).
    """
    if not 0 < temperature < math.inf:  # false for NaN too
        raise ConfigError(f"distillation.temperature is {temperature}\n  allowed: more than 0")
    _check(logits, targets)
    if targets.is_floating_point():
        return combine(logits, mean(logits, targets))
    logs = (logits.float() / temperature).log_softmax(-1)
    return temperature * (logs.logsumexp(0) - math.log(len(logits)))


def probability_shift(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of the logits; where it is wrong, its largest and the label's logit swapped.

    ``[M, B, ..., C], [B, ...] -> [B, ..., C]``. Unknown labels and regressions: plain mean. Source:
    TextBrewer, ``probability_shift``, applied to the teachers' mean.
    """
    soft = combine(logits, mean(logits, targets))
    if targets.is_floating_point():
        return soft
    targets = targets.to(logits.device)
    top = soft.argmax(-1, keepdim=True)
    label = targets.unsqueeze(-1).where((targets != UNKNOWN).unsqueeze(-1), top)
    shifted = soft.scatter(-1, top, soft.gather(-1, label))
    return torch.scatter(shifted, -1, label, soft.gather(-1, top))


def correctness(
    logits: Tensor,
    targets: Tensor,
    *,
    wrong: float = 0.75,
    all_wrong: AllWrong = "scale",
    span_correctness: SpanCorrectness = "independent",
) -> Tensor:
    """Return the weight ``wrong`` for each wrong teacher; the right ones share the rest of M.

    ``[M, B, ..., C], [B, ...] -> [M, B, ...]``. They sum to M, unless all teachers are wrong: then
    they are ``wrong`` (``scale``, the literal reading), ones (``mean``) or zeros (``drop``: no
    distillation for this example). With ``joint`` a teacher is right only if it is right at every
    known label of the example, and all trailing axes get the same weight. Unknown targets (-100)
    and regressions: plain mean, our choice. Source: ROaD part 1, Algorithm 2.
    """
    if not 0.0 <= wrong <= 1.0:  # false for NaN too
        raise ConfigError(
            f"weighting.wrong is {wrong}\n  allowed: 0 to 1 (ROaD: 0.75; 1: plain mean)"
        )
    _check_choice("all_wrong", all_wrong, AllWrong)
    _check_choice("span_correctness", span_correctness, SpanCorrectness)
    ones = mean(logits, targets)
    if targets.is_floating_point():
        return ones
    targets = targets.to(logits.device)
    right, known = right_teachers(logits, targets), targets != UNKNOWN
    if span_correctness == "joint" and targets.ndim > 1:
        trailing = tuple(range(1, targets.ndim))
        right = (right | ~known).all(tuple(a + 1 for a in trailing), keepdim=True).expand_as(right)
        known = known.any(trailing, keepdim=True).expand_as(known)
    num_teachers, count = len(logits), right.sum(0)
    boost = (num_teachers - (num_teachers - count) * wrong) / count.clamp(min=1)
    none_right = {"scale": wrong, "mean": 1.0, "drop": 0.0}[all_wrong]
    weights = torch.where(right, boost, torch.where(count > 0, wrong, none_right))
    return torch.where(known, weights, ones)


def correct_only(
    logits: Tensor,
    targets: Tensor,
    *,
    all_wrong: AllWrong = "drop",
    span_correctness: SpanCorrectness = "independent",
) -> Tensor:
    """Return weights that share M among the right teachers; those of the others are 0.
    ``[M, B, ..., C], [B, ...] -> [M, B, ...]``.

    The limit of ``correctness`` at ``wrong = 0``; where no teacher is right, ``scale`` is ``drop``.
    """
    return correctness(
        logits, targets, wrong=0.0, all_wrong=all_wrong, span_correctness=span_correctness
    )


def right_teachers(logits: Tensor, targets: Tensor) -> Tensor:
    """Return which teachers have their first largest logit at the target.
    ``[M, B, ..., C], [B, ...] -> [M, B, ...]`` bool.
    """
    _check(logits, targets)
    return (logits.argmax(-1) == targets) & ~logits.isnan().any(-1)  # NaN: not answered


def _check_choice(key: str, value: str, kind: object) -> None:
    """Raise ``ConfigError`` unless ``value`` is one of the literals of ``kind``."""
    if value not in get_args(kind):
        allowed = ", ".join(get_args(kind))
        raise ConfigError(f"weighting.{key} is {value!r}\n  allowed: {allowed}")


def confidence(
    logits: Tensor, targets: Tensor, *, span_correctness: SpanCorrectness = "independent"
) -> Tensor:
    """Return weights that grow with the label's probability: ``M (1 - softmax_m(CE_m)) / (M - 1)``.

    ``[M, B, ..., C], [B, ...] -> [M, B, ...]``. ``joint`` takes the mean cross-entropy over the
    known labels of the example. One teacher, unknown labels and regressions: plain mean. The paper
    weights losses; here the weights are of logits, or of losses with
    ``distillation.average_loss``. Source: Zhang et al. 2022 (CA-MKD), its code.
    """
    _check_choice("span_correctness", span_correctness, SpanCorrectness)
    ones = mean(logits, targets)
    if targets.is_floating_point() or len(logits) == 1:
        return ones
    targets = targets.to(logits.device)
    known = targets != UNKNOWN
    at = targets.where(known, 0).expand(logits.shape[:-1]).unsqueeze(-1)
    losses = -logits.float().log_softmax(-1).gather(-1, at).squeeze(-1)
    losses = losses.clamp(max=_MAX_CROSS_ENTROPY).where(known, 0.0)
    if span_correctness == "joint" and targets.ndim > 1:
        trailing = tuple(range(1, targets.ndim))
        total = losses.sum(tuple(a + 1 for a in trailing), keepdim=True)
        losses = (total / known.sum(trailing, keepdim=True).clamp(min=1)).expand_as(losses)
        known = known.any(trailing, keepdim=True).expand_as(known)
    weights = (1 - losses.softmax(0)) * (len(logits) / (len(logits) - 1))
    return torch.where(known, weights, ones)


def entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return weights that fall with the teacher's entropy: ``M (1 - H_m / sum H) / (M - 1)``.

    ``[M, B, ..., C], [B, ...] -> [M, B, ...]``; labels are not used. One teacher, zero entropy of
    all and regressions: plain mean. Source: EBKD as in the code of CA-MKD, scaled
    here to sum to M.
    """
    ones = mean(logits, targets)
    if targets.is_floating_point() or len(logits) == 1:
        return ones
    logs = logits.float().log_softmax(-1)
    probabilities = logs.exp()
    # A class that is not allowed adds 0; computed: 0 * -inf.
    entropies = -torch.where(probabilities > 0, probabilities * logs, 0.0).sum(-1).clamp(max=0)
    total = entropies.sum(0)
    weights = (1 - entropies / total.clamp(min=torch.finfo(torch.float32).tiny)) * (
        len(logits) / (len(logits) - 1)
    )
    return torch.where(total > 0, weights, ones)


RULES: dict[str, Callable[..., Tensor]] = {
    "mean": mean,
    "correctness": correctness,
    "correct_only": correct_only,
    "confidence": confidence,
    "entropy": entropy,
    "mean_probabilities": mean_probabilities,
    "probability_shift": probability_shift,
}


def default_rule(num_teachers: int) -> str:
    """Return the default rule for ``num_teachers`` teachers of a row: ROaD's for several; for one
    the mean, which is plain knowledge distillation.
    """
    return "mean" if num_teachers == 1 else "correctness"


def resolve(name: str, shared: Mapping[str, object] | None = None, /, **options: Any) -> Rule:
    """Return a rule with its options bound: one of ``RULES``, or a function of any module by
    ``package.module:name``; the module may lie in the working directory. Of the ``shared`` options
    it gets those that it has.

    The rule is called once with two teachers, three rows and four classes, so that a mistake fails
    here and not in step 1. Raises ``ConfigError`` for an unknown name, option or value, a module
    that cannot be imported, and a function that is no rule.
    """
    function: Callable[..., Tensor] = named_object("weighting.rule", name, RULES, _CONTRACT)
    if not callable(function):
        raise unfit("weighting.rule", name, f"{function!r} is not a callable", _CONTRACT)
    parameters = inspect.signature(function).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    if unknown := options.keys() - known:
        raise ConfigError(
            f"weighting.{min(unknown)}: no option of {name}\n"
            f"  allowed: {', '.join(known) or 'none'}"
        )
    of_rule = {key: value for key, value in (shared or {}).items() if key in known}
    rule = partial(function, **of_rule | options)
    try:
        shape = tuple(rule(torch.zeros(2, 3, 4), torch.zeros(3, dtype=torch.long)).shape)
    except RoadError:
        raise
    except Exception as error:
        problem = f"called with logits [2, 3, 4] and targets [3]: {error!r}"
        raise unfit("weighting.rule", name, problem, _CONTRACT) from error
    if shape == (2, 3):
        return rule
    if shape == (3, 4):
        return Merge(rule)
    problem = f"returns {list(shape)} for logits [2, 3, 4] and targets [3]"
    raise unfit("weighting.rule", name, problem, _CONTRACT)
