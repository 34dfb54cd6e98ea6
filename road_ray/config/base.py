"""Base class of all configurations, their plain values, and the marks of their fields.

A field is marked where it is declared; a subclass that declares it again keeps the mark. A field
without a mark decides the result of a run: a run is not resumed with another value of it.
"""

import re
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from road_ray.config.schema import flatten
from road_ray.config.secrets import secret_in

T = TypeVar("T")
C = TypeVar("C", bound="Config")


class Config(BaseModel):
    """One section of a configuration: frozen, no unknown keys, no NaN. The text under a field is
    its description.

    ``load`` and ``override`` are strict: ``true`` is never a number, text never a whole number.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
        defer_build=True,
    )

    @classmethod
    def locate(cls, values: dict[str, Any], file: Path) -> None:
        """Make paths in the values of a YAML file absolute that no mark of a field covers."""

    @field_validator("*", mode="after")
    @classmethod
    def _checked(cls, value: Any) -> Any:
        """Return a value with ``~`` expanded in every path of it, at any depth.

        Raises ``ValueError`` for an address with a secret, also in a key of a mapping, for a whole
        number of more than 64 bits, and for the home of an unknown user.
        """
        if isinstance(value, dict):
            return {cls._checked(name): cls._checked(item) for name, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return type(value)(map(cls._checked, value))
        if isinstance(value, int) and not -(2**63) <= value < 2**63:  # as torch takes a seed
            raise ValueError("is too large\n    allowed: whole numbers of at most 64 bits")
        if isinstance(value, str | Path) and (secret := secret_in(str(value))):
            raise ValueError(
                f"the address holds a key ({secret}), and configurations are recorded\n"
                "    allowed: an address without user, password, token, key or signature; "
                "credentials come from the environment (AWS_*, GOOGLE_APPLICATION_CREDENTIALS, "
                "MLFLOW_TRACKING_TOKEN) or the storage's credentials file"
            )
        if isinstance(value, Path):
            if re.match(r"[a-z][a-z0-9+.-]+:/", str(value)):  # of `s3://x` is left `s3:/x`
                raise ValueError(
                    "is an address\n    allowed: a path, of this machine or a shared disk"
                )
            try:
                return value.expanduser()
            except RuntimeError:
                raise ValueError("begins with the home of a user who has none here") from None
        return value


def to_dict(config: BaseModel) -> dict[str, Any]:
    """Return the whole configuration as plain values: dicts, lists, text, numbers, bools, null."""
    return config.model_dump(mode="json", round_trip=True)


def as_base(kind: type[C], config: Config) -> C:
    """Return a configuration, or a section of one, as one of its base classes."""
    return kind(**{name: getattr(config, name) for name in kind.model_fields})


@dataclass(frozen=True)
class Mark:
    """Mark of a field. It does not hold where ``unless`` is set, a key of the same section such as
    ``early_stopping.patience``.
    """

    unless: str = ""


class FreeOnResume(Mark):
    """A value that may differ when a run is resumed: it does not change the result."""


class ByContent(Mark):
    """Paths of files whose content is compared instead: on another machine they lie elsewhere."""


class Extends(Mark):
    """A value that may differ in a finished run, which then runs what is missing."""


def beside_file(unless: str = "") -> Any:
    """Mark a field: a relative path in a YAML file refers to a file beside it, if one exists.
    ``unless`` is a key of the same section; if it is set, the value is not a path.
    """
    return Field(json_schema_extra={"x-beside": unless})


Free = Annotated[T, FreeOnResume()]
"""Type of a field that may always differ when a run is resumed."""


def resume_identity(config: Config) -> dict[str, Any]:
    """Return the verb and every dotted key that determines the result of a run, without paths of
    files that are compared by content. Copies of checkpoints record it, because a mirror outlives
    run directories and may be given to many runs.
    """
    return {"verb": type(config).__name__.removesuffix("Config").lower()} | fixed_values(config)


def fixed_values(config: Config, kind: type[Mark] = Mark) -> dict[str, Any]:
    """Return the values by dotted key that have no mark of this kind, nor does a section above."""
    left_out = tuple(f"{key}." for key in marked(config, kind))
    values = flatten(to_dict(config), keep_empty=True)
    return {key: value for key, value in values.items() if not f"{key}.".startswith(left_out)}


def marked(config: Config, kind: type[Mark], above: str = "") -> set[str]:
    """Return the dotted keys of the values and sections with a mark of this kind, also in sections
    and in mappings of sections.
    """
    found = set()
    for name in type(config).model_fields:
        value = getattr(config, name)
        # Those of the classes that declared the field before, too.
        classes = [c for c in type(config).__mro__ if issubclass(c, Config)]
        fields = [c.model_fields[name] for c in classes if name in c.model_fields]
        marks = [mark for field in fields for mark in field.metadata if isinstance(mark, kind)]
        if any(not mark.unless or attrgetter(mark.unless)(config) is None for mark in marks):
            found.add(above + name)
            continue
        inner = {f"{name}.{key}": e for key, e in value.items()} if isinstance(value, dict) else {}
        for key, entry in (inner or {name: value}).items():
            if isinstance(entry, Config):
                found |= marked(entry, kind, f"{above}{key}.")
    return found
