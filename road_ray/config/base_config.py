"""Base class of all configurations; their plain values and digests.

Every section of a configuration is a ``Config`` in the room that uses it. ``merge.py`` makes one
from a preset, a YAML file and overrides; ``presets/`` has the presets.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, field_validator
from pydantic_core import CoreSchema

from road_ray.config.path_checks import expand_user, refuse_unwritable, texts
from road_ray.config.strict_types import strict_types
from road_ray.config.url_secrets import refuse_secret


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


def to_dict(config: Config) -> dict[str, Any]:
    """Return the whole configuration as plain values: dicts, lists, text, numbers, bools, null."""
    return config.model_dump(mode="json", round_trip=True)


def digest(config: Config) -> str:
    """Return twelve hexadecimal digits that change with any value of the configuration."""
    text = json.dumps(to_dict(config), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
