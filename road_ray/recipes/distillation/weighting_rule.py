"""The rule by which a run weights its teachers, from its configuration."""

from __future__ import annotations

from road_ray.config import to_dict
from road_ray.distillation.weighting import Rule, default_rule, options_of, resolve
from road_ray.recipes.distillation.config import WeightingConfig


def used_weighting(weighting: WeightingConfig, num_teachers: int) -> WeightingConfig:
    """Return the configuration with the rule for rows with ``num_teachers`` teachers."""
    return weighting.model_copy(update={"rule": weighting.rule or default_rule(num_teachers)})


def weighting_rule(
    weighting: WeightingConfig, temperature: float = 1.0, *, num_teachers: int
) -> Rule:
    """Return the rule for rows with ``num_teachers`` teachers, with the options that it takes."""
    settings = to_dict(used_weighting(weighting, num_teachers)) | {"temperature": temperature}
    name = settings.pop("rule")
    return resolve(name, **{key: settings[key] for key in options_of(name) if key in settings})
