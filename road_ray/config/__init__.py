"""Configuration: preset, YAML file and dotted overrides become one frozen object.

``base_config.py`` has ``Config``, the base class of every section. ``merge.py`` loads: it merges
sources and records where each value came from. ``yaml_files/`` reads and writes YAML,
``overrides.py`` parses ``key=value``, ``strict_types.py`` makes numbers and bools strict,
``dotted_keys.py`` finds fields by their keys, ``allowed_values.py`` describes what they take, and
``error_messages.py`` words the errors. ``json_schemas.py`` and ``key_explanation.py`` make schemas
and explanations from the docstrings below the fields. ``path_checks.py`` refuses what no file can
hold, ``url_secrets.py`` addresses that hold a password. The sections are in the ``config.py`` of
the room that uses them. This room imports neither torch nor Ray.
"""

from road_ray.config.base_config import Config, digest, to_dict
from road_ray.config.dotted_keys import flatten
from road_ray.config.error_messages import InvalidConfig
from road_ray.config.json_schemas import json_schema
from road_ray.config.merge import load, override, preset_named_in
from road_ray.config.yaml_files.reader import read_yaml
from road_ray.config.yaml_files.writer import to_yaml

__all__ = [
    "Config",
    "InvalidConfig",
    "digest",
    "flatten",
    "json_schema",
    "load",
    "override",
    "preset_named_in",
    "read_yaml",
    "to_dict",
    "to_yaml",
]
