"""Weighting rules: the combination of the logits of M teachers into soft logits.

A rule is a pure function ``(logits [M, B, ..., C], targets [B, ...])``. Rules registered with
``weighting`` return weights ``[M, B, ...]``, non-negative, finite and summing to M where some
teacher counts; ``combine`` then averages the logits. Rules registered with ``merging`` return the
soft logits ``[B, ..., C]`` themselves, because they average something else. ``soften`` applies a
rule. Classification has no trailing axes; spans are ``[M, B, 2, L]`` with targets ``[B, 2]`` (start
and end; the position is the class), tags ``[M, B, L, C]`` with ``[B, L]``, choices ``[M, B, N]``:
the code is the same for all.
"""

from road_ray.distillation.weighting.averaging import mean, mean_probabilities, probability_shift
from road_ray.distillation.weighting.combine import SoftTargets, check_shapes, combine, soften
from road_ray.distillation.weighting.confidence import confidence, entropy
from road_ray.distillation.weighting.correctness import correct_only, correctness, num_right
from road_ray.distillation.weighting.registry import (
    MERGES,
    WEIGHTINGS,
    Merge,
    Rule,
    Weighting,
    default_rule,
    merging,
    options_of,
    resolve,
    weighting,
)

__all__ = [
    "MERGES",
    "WEIGHTINGS",
    "Merge",
    "Rule",
    "SoftTargets",
    "Weighting",
    "check_shapes",
    "combine",
    "confidence",
    "correct_only",
    "correctness",
    "default_rule",
    "entropy",
    "mean",
    "mean_probabilities",
    "merging",
    "num_right",
    "options_of",
    "probability_shift",
    "resolve",
    "soften",
    "weighting",
]
