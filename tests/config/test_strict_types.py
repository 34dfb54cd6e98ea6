"""What the sections of a configuration take as a number, a bool, a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field, ValidationError

from road_ray.config import Config, load
from road_ray.errors import ConfigError


class Inner(Config):
    rate: float = Field(1.0, gt=0)


class Example(Config):
    temperature: float = Field(1.0, gt=0)
    steps: int = 1
    flag: bool = False
    name: str = "x"
    rule: Literal["mean", "correctness"] = "mean"
    inner: Inner = Inner()
    maybe: float | None = None
    fixed: Literal[1, 2] = 2
    many: tuple[float, ...] = ()
    layers: int | tuple[int, ...] | None = None
    table: dict[str, int] = Field(default_factory=dict)
    place: Path = Path("~/runs")
    places: list[Path] = Field(default_factory=list)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", True),
        ("steps", True),
        ("maybe", False),
        ("layers", True),
        ("layers", [True]),
        ("many", [1.0, True]),
        ("table", {"a": True}),
        ("inner", {"rate": True}),
    ],
)
def test_true_is_never_a_number(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match="not numbers"):
        load(Example, base={name: value})


@pytest.mark.parametrize("value", ["no", "yes", "true", 0, 1, None])
def test_only_true_and_false_are_bools(value: Any) -> None:
    with pytest.raises(ConfigError, match="write true or false"):
        load(Example, base={"flag": value})


@pytest.mark.parametrize(("value", "expected"), [("5e-5", 5e-5), ("1e-4", 1e-4), (2, 2.0)])
def test_a_float_takes_scientific_text_and_whole_numbers(value: Any, expected: float) -> None:
    read = load(Example, base={"temperature": value}).temperature
    assert (read, type(read)) == (expected, float)


def test_a_list_or_a_whole_number_takes_no_text() -> None:
    with pytest.raises(ConfigError):
        load(Example, base={"layers": "4"})


@pytest.mark.parametrize("value", ["4", 1.5, "many"])
def test_a_whole_number_takes_neither_text_nor_fractions(value: Any) -> None:
    with pytest.raises(ConfigError):
        load(Example, base={"steps": value})


def test_a_whole_number_may_be_written_as_1e4() -> None:
    assert load(Example, base={"steps": 1e4}).steps == 10_000


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "nan", "-inf"])
def test_numbers_are_finite(value: Any) -> None:
    with pytest.raises(ConfigError, match="finite"):
        load(Example, base={"maybe": value})


def test_text_takes_no_numbers() -> None:
    with pytest.raises(ConfigError):
        load(Example, base={"name": 123})


def test_the_home_directory_is_expanded_in_every_path() -> None:
    example = load(Example, base={"places": ["~/a", "b/c"]})
    assert example.place == Path.home() / "runs"
    assert example.places == [Path.home() / "a", Path("b/c")]


def test_a_configuration_is_frozen() -> None:
    example = Example()
    with pytest.raises(ValidationError, match="frozen"):
        example.steps = 2  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        example.inner.rate = 2.0  # type: ignore[misc]


def test_a_bad_default_is_noticed_when_it_is_used() -> None:
    class Wrong(Config):
        share: float = Field(1.5, le=1)

    with pytest.raises(ValidationError):
        Wrong()
