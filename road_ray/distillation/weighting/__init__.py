"""Weighting rules: the combination of the logits of M teachers into soft logits.

A rule is a pure function ``(logits [M, B, ..., C], targets [B, ...])``. It returns weights
``[M, B, ...]``, non-negative, finite and summing to M where some teacher counts, by which
``combine`` averages the logits; or, because it averages something else, the soft logits
``[B, ..., C]`` themselves. ``soften`` applies a rule. Classification has no trailing axes; spans
are ``[M, B, 2, L]`` with targets ``[B, 2]`` (start and end; the position is the class), tags
``[M, B, L, C]`` with ``[B, L]``, choices ``[M, B, N]``: the code is the same for all.
``registry.py`` finds a rule by its name; to add one here, enter it there.
"""

from road_ray.distillation.weighting.averaging import mean, mean_probabilities, probability_shift
from road_ray.distillation.weighting.combine import Merge, Rule, SoftTargets, combine, soften
from road_ray.distillation.weighting.confidence import confidence, entropy
from road_ray.distillation.weighting.correctness import correct_only, correctness, num_right
from road_ray.distillation.weighting.registry import RULES, default_rule, options_of, resolve

__all__ = [
    "RULES",
    "Merge",
    "Rule",
    "SoftTargets",
    "combine",
    "confidence",
    "correct_only",
    "correctness",
    "default_rule",
    "entropy",
    "mean",
    "mean_probabilities",
    "num_right",
    "options_of",
    "probability_shift",
    "resolve",
    "soften",
]
