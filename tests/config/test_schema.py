"""The fields of a configuration by key, the words for what each may hold, and JSON schemas for
editors.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft7Validator
from pydantic import Field, PositiveInt

from road_ray.config import Config, json_schema
from road_ray.config.schema import allowed, at, format_key, format_value


class Section(Config):
    """A section."""

    rate: float = Field(0.5, gt=0, le=1)
    """Updates
    a second."""
    kind: Literal["one", "two"] = "one"
    pair: tuple[int, int] = (1, 2)
    decay: float = 1.0


class Other(Config):
    kind: Literal["other"] = "other"
    depth: int = 1


class Example(Config):
    needed: int
    inner: Section = Section(rate=0.25)
    """The section as it stands here."""
    other: Section | None = None
    between: float = Field(0.5, ge=0, lt=1)
    below: float = Field(0.5, le=2)
    positive: PositiveInt = 1
    inside: list[Annotated[float, Field(ge=0)]] = Field(default_factory=list)
    pair: tuple[int, str] = (1, "a")
    table: dict[str, Section] = Field(default_factory=dict)
    choice: Literal["a", "b"] | None = None
    colour: str = Field("red", json_schema_extra={"enum": ["red"]})
    either: int | Literal["auto"] = "auto"
    code: str = Field("a", min_length=1)
    some: tuple[str, ...] = Field(("a",), min_length=1)
    path: Path | None = None
    free: Any = None
    mixed: Section | Other = Section()


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (("between",), "0 <= value < 1"),
        (("below",), "value <= 2"),
        (("positive",), "a whole number, value > 0"),
        (("inside",), "a list with items: value >= 0"),
        (("inside", 3), "value >= 0"),
        (("pair",), "a list of 2: [a whole number, text]"),
        (("pair", 1), "text"),
        (("table", "x", "decay"), "a finite number"),
        (("choice",), '"a" or "b" or null'),
        (("colour",), '"red"'),
        (("either",), 'a whole number or "auto"'),
        (("code",), "text, length at least 1"),
        (("some",), "a non-empty list with items: text"),
        (("path",), "a path or null"),
        (("free",), "any value"),
        (("mixed", "depth"), "a whole number"),
    ],
)
def test_what_is_allowed_is_told_in_words(key: tuple[str | int, ...], words: str) -> None:
    node = at(Example, key)
    assert node is not None
    assert allowed(node) == words


def test_keys_and_values_are_written_as_in_yaml() -> None:
    assert format_key(("a", "b", 2, "c")) == "a.b[2].c"
    values = [True, None, float("nan"), -float("inf"), "x", 1e-4, [1]]
    expected = ["true", "null", ".nan", "-.inf", '"x"', "0.0001", "[1]"]
    assert [format_value(value) for value in values] == expected
    assert len(format_value("x" * 1000)) == 80


def test_a_schema_has_defaults_and_descriptions_of_places_and_allows_known_keys() -> None:
    schema = json_schema(Example)
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
    check = Draft7Validator(schema)  # no key is required, and none is unknown
    assert check.is_valid({})
    assert check.is_valid({"other": None, "table": {"x": {"kind": "two"}}})
    assert not check.is_valid({"inner": {"rte": 1}})
    assert not check.is_valid({"table": {"x": {"kind": "three"}}})
    assert not check.is_valid({"inner": {"pair": [1]}})
    assert not check.is_valid({"inner": {"pair": [1, "x"]}})
