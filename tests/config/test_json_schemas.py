"""JSON schemas for editors."""

from __future__ import annotations

from typing import Literal

from jsonschema import Draft7Validator
from pydantic import Field

from road_ray.config import Config, json_schema


class Inner(Config):
    """A section."""

    rate: float = Field(0.5, gt=0, le=1)
    """Updates
    a second."""
    kind: Literal["one", "two"] = "one"
    pair: tuple[int, int] = (1, 2)


class Outer(Config):
    needed: int
    inner: Inner = Inner(rate=0.25)
    """The section as it stands here."""
    other: Inner | None = None
    many: dict[str, Inner] = Field({})


def test_a_section_has_the_defaults_and_the_description_of_its_place() -> None:
    schema = json_schema(Outer)
    inner = schema["properties"]["inner"]
    assert inner["description"] == "The section as it stands here."
    assert inner["properties"]["rate"] == {
        "default": 0.25,
        "description": "Updates a second.",
        "exclusiveMinimum": 0,
        "maximum": 1,
        "type": "number",
    }
    other = schema["properties"]["other"]["anyOf"][0]
    assert other["properties"]["rate"]["default"] == 0.5


def test_no_key_is_required_and_none_is_unknown() -> None:
    check = Draft7Validator(json_schema(Outer))
    assert check.is_valid({})
    assert check.is_valid({"other": None, "many": {"x": {"kind": "two"}}})
    assert not check.is_valid({"inner": {"rte": 1}})
    assert not check.is_valid({"many": {"x": {"kind": "three"}}})
    assert not check.is_valid({"inner": {"pair": [1]}})
    assert not check.is_valid({"inner": {"pair": [1, "x"]}})


def test_preset_is_a_key_of_verbs_that_have_presets_only() -> None:
    assert not Draft7Validator(json_schema(Outer)).is_valid({"preset": "small"})
    check = Draft7Validator(json_schema(Outer, ["small"]))
    assert check.is_valid({"preset": "small"})
    assert not check.is_valid({"preset": "large"})
