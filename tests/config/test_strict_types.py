"""What the sections of a configuration take as a number, a bool, a path."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field

from road_ray.config import Config, load
from road_ray.errors import ConfigError


class Inner(Config):
    rate: float = Field(1.0, gt=0)


class Example(Config):
    temperature: float = Field(1.0, gt=0)
    steps: int = 1
    flag: bool = False
    name: str = "x"
    inner: Inner = Inner()
    maybe: float | None = None
    many: tuple[float, ...] = ()
    layers: int | tuple[int, ...] | None = None
    table: dict[str, int] = Field(default_factory=dict)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("steps", True, "steps = true"),
        ("maybe", False, "maybe = false"),
        ("layers", [True], r"layers\[0\] = true"),
        ("many", [1.0, True], r"many\[1\] = true"),
        ("table", {"a": True}, "table.a = true"),
        *(("flag", value, "allowed: true or false") for value in ("no", "true", 0, 1, None)),
        *(("steps", value, "steps") for value in ("4", 1.5, "many")),
        *(("maybe", value, "finite") for value in (float("nan"), "nan", "-inf")),
    ],
)
def test_nothing_is_converted_silently(name: str, value: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load(Example, base={name: value})


@pytest.mark.parametrize(("value", "expected"), [("5e-5", 5e-5), (2, 2.0)])
def test_a_float_takes_scientific_text_and_whole_numbers(value: Any, expected: float) -> None:
    read = load(Example, base={"temperature": value}).temperature
    assert (read, type(read)) == (expected, float)
    assert load(Example, base={"steps": 1e4}).steps == 10_000
