"""Presets: named complete configurations, each a function that returns one.

A preset is a base that a YAML file and ``a.b=value`` override. ``road presets`` lists them.
``preset.py`` has the decorator ``preset``; the other modules hold one family each, and every preset
in them is listed in ``PRESETS``.
"""

from collections.abc import Mapping

from road_ray.config import Config
from road_ray.errors import ConfigError, did_you_mean
from road_ray.presets import electra, glue, multitask_baselines, road, robustness, tiny
from road_ray.presets.preset import Preset

_FAMILIES = (electra, glue, road, multitask_baselines, robustness, tiny)
PRESETS: Mapping[str, Preset[Config]] = {
    name: value
    for family in _FAMILIES
    for name, value in vars(family).items()
    if isinstance(value, Preset)
}


def get_preset(name: str, verb: str | None = None) -> Preset[Config]:
    """Return the preset ``name``. Raises ``ConfigError`` with the nearest one, of ``verb`` if it is
    given.
    """
    if name not in PRESETS:
        known = sorted(preset.name for preset in PRESETS.values() if verb in (None, preset.verb))
        hint = did_you_mean(name, known)
        of = f" for `road {verb}`" if verb else ""
        raise ConfigError(
            f"unknown preset {name!r}{hint}\n  allowed{of}: {', '.join(known)}\n"
            "  fix: use one of these; `road presets NAME` prints its keys"
        )
    return PRESETS[name]


__all__ = ["PRESETS", "Preset", "get_preset"]
