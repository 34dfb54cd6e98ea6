"""How several teachers become one: what each counts for each example, and the mean that is taken.

A rule of one file of this package is a pure function ``(logits [M, B, ..., C], targets [B, ...])``.
Those entered with ``weighting`` give weights ``[M, B, ...]``, non-negative, finite and summing to M
where somebody counts; ``combine`` then averages the logits. Those entered with ``merging`` give the
soft logits ``[B, ..., C]`` themselves, because they average something else. ``soften`` is the
common law. Classification has no trailing axes; spans are ``[M, B, 2, L]`` with targets ``[B, 2]``
(start and end; the position is the class), tags ``[M, B, L, C]`` with ``[B, L]``, choices ``[M, B,
N]``: one code serves all.
"""

from road_ray.distillation.weighting.averaging import mean_probabilities, probability_shift
from road_ray.distillation.weighting.combine import SoftTargets, check_shapes, combine, soften
from road_ray.distillation.weighting.confidence import confidence, entropy
from road_ray.distillation.weighting.correctness import correct_only, correctness, mean, num_right
from road_ray.distillation.weighting.registry import (
    MERGES,
    WEIGHTINGS,
    Merge,
    Rule,
    Weighting,
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
