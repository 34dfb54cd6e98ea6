"""Base class of all configurations; loading from preset, YAML file and overrides; writing; digests.

Every section of a configuration is a ``Config`` in the room that uses it. An invalid configuration
raises one error with all its mistakes. ``presets/`` has the presets.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, field_validator
from pydantic_core import CoreSchema
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq

from road_ray.config import yaml as yaml_lines
from road_ray.config.addresses import refuse_secret
from road_ray.config.fields import format_value
from road_ray.config.merge import Layers
from road_ray.config.messages import InvalidConfig
from road_ray.config.types import expand_user, refuse_unwritable, strict_types, texts
from road_ray.errors import Problem

__all__ = [
    "Config",
    "InvalidConfig",
    "digest",
    "load",
    "override",
    "preset_named_in",
    "to_dict",
    "to_yaml",
]

T = TypeVar("T", bound="Config")


class Config(BaseModel):
    """One section of a configuration: frozen, no unknown keys, no NaN, ``true`` never a number.

    A float also takes a whole number or the text ``5e-5``; a bool takes nothing but true and
    false; ``~`` in a path is the home directory. The text under a field is its description.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler, /
    ) -> CoreSchema:
        schema = handler(source)
        strict_types(handler.resolve_ref_schema(schema))
        return schema

    @field_validator("*", mode="after")
    @classmethod
    def _home_expanded(cls, value: object) -> Any:
        for text in texts(value):
            refuse_secret(str(text))
            refuse_unwritable(text)
        return expand_user(value)


def load(
    kind: type[T],
    *,
    base: Mapping[str, Any] | None = None,
    path: Path | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
) -> T:
    """Return the configuration of a preset (``base``), overridden by a YAML file, overridden by
    ``a.b=value``.

    Sections and dicts are merged key by key, lists are replaced; an empty file or section changes
    nothing. The caller handles ``preset`` at the top of the file (`preset_named_in`).

    Raises ``InvalidConfig``, a ``ConfigError``, with every mistake: its line, key, range and
    remedy.
    """
    layers = Layers(kind, str(path) if path else "configuration")
    layers.put((), base or {}, "preset")
    if path is not None:
        try:
            layers.put_file(path)
        except InvalidConfig as error:
            layers.put_overrides(overrides)
            raise InvalidConfig([*error.problems, *layers.problems]) from None
    layers.put_overrides(overrides)
    return layers.validated(kind)


def override(config: T, changes: Mapping[str, object]) -> T:
    """Return a copy with changed dotted keys: ``override(config, {"optimizer.peak_lr": 1e-4})``."""
    kind = type(config)
    layers = Layers(kind, "configuration")
    layers.put((), to_dict(config), "configuration")
    layers.put_overrides(changes)
    return layers.validated(kind)


def preset_named_in(path: Path) -> str | None:
    """Return the ``preset: NAME`` of a YAML file, or None if it has none."""
    written = yaml_lines.read_yaml(path)
    name = written.values.get("preset")
    if name is None or isinstance(name, str):
        return name
    where = f"{path}:{written.lines[('preset',)]}"
    message = f"preset = {format_value(name)}\n    allowed: the name of a preset"
    raise InvalidConfig([Problem(where, message, "`road presets` lists them")])


def to_dict(config: Config) -> dict[str, Any]:
    """Return the whole configuration as plain values: dicts, lists, text, numbers, bools, null."""
    return config.model_dump(mode="json", round_trip=True)


def to_yaml(config: Config) -> str:
    """Return the whole configuration as YAML that ``load`` reads back to an equal one."""
    return plain_yaml(to_dict(config))


def plain_yaml(values: Mapping[str, object]) -> str:
    """Return plain values as YAML, lists of plain items on one line each."""
    writer = YAML()
    writer.allow_unicode = False  # escapes survive every terminal and editor
    writer.width = 4096
    stream = io.StringIO()
    writer.dump(_laid_out(dict(values)), stream)
    return stream.getvalue()


def digest(config: Config) -> str:
    """Return twelve hexadecimal digits that change with any value of the configuration."""
    text = json.dumps(to_dict(config), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def flatten(
    tree: Mapping[str, object], prefix: str = "", *, keep_empty: bool = False
) -> dict[str, Any]:
    """Return nested mappings as values by dotted key: ``{"a": {"b": 1}}`` -> ``{"a.b": 1}``.

    An empty mapping is left out unless ``keep_empty``.
    """
    values: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and (value or not keep_empty):
            values |= flatten(value, f"{prefix}{name}.", keep_empty=keep_empty)
        else:
            values[f"{prefix}{name}"] = value
    return values


def _laid_out(value: object) -> Any:
    """Return the value with its lists of plain items on one line each."""
    if isinstance(value, dict):
        return {name: _laid_out(item) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    items = CommentedSeq(_laid_out(item) for item in value)
    if not any(isinstance(item, dict | list) for item in value):
        items.fa.set_flow_style()
    return items
