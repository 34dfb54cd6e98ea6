"""Presets: named whole configurations, each a function that returns one.

A preset is a base: a YAML file and ``a.b=value`` go on top of it. ``road presets`` lists them.
``registry.py`` has the decorator ``preset`` and the look-up; the other modules hold one family
each.
"""

from road_ray.presets import electra, glue, road, robustness, tiny
from road_ray.presets.registry import PRESETS, Preset, named, preset

__all__ = ["PRESETS", "Preset", "electra", "glue", "named", "preset", "road", "robustness", "tiny"]
