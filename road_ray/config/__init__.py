"""Configuration: preset, YAML file and dotted overrides become one frozen object.

``base.py`` has ``Config``, the base class of every section, and the functions that load, override
and write a configuration. ``merge.py`` merges sources and records where each value came from,
``overrides.py`` parses ``key=value``, ``fields.py`` describes fields by their dotted keys,
``messages.py`` words the errors, ``types.py`` makes numbers and bools strict, and ``yaml.py`` reads
YAML with line numbers. ``schema.py``, ``key_info.py`` and ``annotated_yaml.py`` make schemas,
explanations and commented files from the docstrings below the fields. ``addresses.py`` refuses
addresses that hold a password. The sections are in the ``config.py`` of the room that uses them.
This room imports neither torch nor Ray.
"""

from road_ray.config.base import (
    Config,
    InvalidConfig,
    digest,
    flatten,
    load,
    override,
    preset_named_in,
    to_dict,
    to_yaml,
)
from road_ray.config.schema import json_schema

__all__ = [
    "Config",
    "InvalidConfig",
    "digest",
    "flatten",
    "json_schema",
    "load",
    "override",
    "preset_named_in",
    "to_dict",
    "to_yaml",
]
