"""Presets: named whole configurations, each a function that returns one.

A preset is a base: a YAML file and ``a.b=value`` go on top of it. ``road presets`` lists them.
``preset.py`` has the decorator ``preset``; the other modules hold one family each, and every preset
in them is listed in ``PRESETS``.
"""

from collections.abc import Mapping

from road_ray.config import Config
from road_ray.errors import ConfigError, did_you_mean
from road_ray.presets import electra, glue, road, robustness, tiny
from road_ray.presets.preset import Preset

_FAMILIES = (electra, glue, road, robustness, tiny)
PRESETS: Mapping[str, Preset[Config]] = {
    name: one
    for family in _FAMILIES
    for name, one in vars(family).items()
    if isinstance(one, Preset)
}


def named(name: str, verb: str | None = None) -> Preset[Config]:
    """Return the preset of that name. Raises ``ConfigError`` with the nearest one, of ``verb`` if
    it is given.
    """
    if name not in PRESETS:
        known = sorted(one.name for one in PRESETS.values() if verb in (None, one.verb))
        hint = did_you_mean(name, known)
        of = f" of `road {verb}`" if verb else ""
        raise ConfigError(f"unknown preset {name!r}{hint}\n  known{of}: {', '.join(known)}")
    return PRESETS[name]


__all__ = ["PRESETS", "Preset", "named"]
