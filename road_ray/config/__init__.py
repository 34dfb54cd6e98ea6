"""Configuration: defaults, preset, YAML file and dotted overrides become one frozen object.

``base.py`` has ``Config``, the base class of every section. ``schema.py`` describes what a class
takes, by its JSON schema: explanations, completion, messages and editors read it. ``merge.py``
loads: it merges sources, records where each value came from and validates strictly. ``messages.py``
words the mistakes, ``yaml_files.py`` reads and writes YAML, ``secrets.py`` finds and masks
passwords in addresses. ``base.py`` also has the marks of fields that may change when a run is
resumed. The sections are in the ``config.py`` of the folder that uses them. This folder imports
neither torch nor Ray.
"""

from road_ray.config.base import Config, to_dict
from road_ray.config.merge import load, override, preset_named_in
from road_ray.config.messages import InvalidConfig
from road_ray.config.schema import flatten, json_schema
from road_ray.config.yaml_files import read_yaml, to_yaml

__all__ = [
    "Config",
    "InvalidConfig",
    "flatten",
    "json_schema",
    "load",
    "override",
    "preset_named_in",
    "read_yaml",
    "to_dict",
    "to_yaml",
]
