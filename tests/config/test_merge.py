"""Values laid over each other: what is merged, what is replaced, and whom a mistake is laid to."""

from __future__ import annotations

from copy import deepcopy
from typing import Annotated, Literal

import pytest
from pydantic import Field, model_validator

from road_ray.config import Config, load
from road_ray.config.messages import InvalidConfig


class Range(Config):
    low: float = 0.0
    high: float = 1.0

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low > self.high:
            raise ValueError(f"low ({self.low}) must not be above high ({self.high})")
        return self


class Example(Config):
    span: Range = Range()
    spans: list[Range] = Field(default_factory=list)
    table: dict[str, int] = Field(default_factory=dict)
    union: int | Range = 1
    seed: int = 0


def test_sections_and_dicts_are_merged_and_lists_are_replaced() -> None:
    base = {"span": {"low": 0.1}, "table": {"a": 1, "b": 2}, "spans": [{"low": 0}, {"low": 0.5}]}
    above = {"span": {"high": 0.9}, "table": {"b": 3}, "spans": [{"high": 2}]}
    before = deepcopy(base)
    config = load(Example, base=base, overrides=above)
    assert config.span == Range(low=0.1, high=0.9)
    assert config.table == {"a": 1, "b": 3}
    assert config.spans == [Range(high=2)]
    assert base == before


@pytest.mark.parametrize(
    ("base", "overrides", "where"),
    [
        ({"seed": "x"}, {"table": {"a": 1}}, "preset"),
        ({"seed": "x"}, {"seed": "y"}, "override"),
        ({"table": {"a": "x"}}, {"table": 1}, "override"),
        ({"spans": [{"low": "x"}]}, {}, "preset"),
        ({"span": {"low": 3}}, {}, "preset"),
        *(({"union": value}, {}, "preset") for value in ("x", None)),
    ],
)
def test_a_mistake_is_one_and_laid_to_the_source_that_made_it(base, overrides, where) -> None:
    with pytest.raises(InvalidConfig) as caught:
        load(Example, base=base, overrides=overrides)
    (problem,) = caught.value.problems
    assert problem.where.startswith(where)


def test_a_later_value_mends_an_earlier_mistake() -> None:
    changes = {"seed": 1, "table": {"a": 1}}
    mended = load(Example, base={"seed": "x", "table": 3}, overrides=changes)
    assert mended == Example(seed=1, table={"a": 1})


def test_a_section_that_is_changed_keeps_what_its_owner_has_by_default():
    class Inner(Config):
        width: int = 1
        depth: int = 1

    class Middle(Config):
        inner: Inner = Inner()
        other: int = 0

    class Outer(Config):
        first: Middle = Middle(inner=Inner(width=5, depth=6))
        two: Middle = Middle(other=3)

    changed = load(Outer, overrides=["first.inner.depth=7", "two.inner.width=8"])
    assert changed.first.inner == Inner(width=5, depth=7)
    assert changed.two == Middle(inner=Inner(width=8), other=3)


class Lists(Config):
    names: tuple[str, ...] = ()
    layers: Literal["all"] | int | tuple[int, ...] = 1
    either: str | tuple[str, ...] = ""
    weights: Literal["balanced"] | dict[str, Annotated[float, Field(ge=0)]] | None = None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("names=a,b", ("a", "b")),
        ("names=a", ("a",)),
        ("names=[a, b]", ("a", "b")),
        ("layers=0,5", (0, 5)),
        ("layers=3", 3),
        ("layers=all", "all"),
        ("either=a,b", ("a", "b")),
        ("either=a", "a"),
    ],
)
def test_a_list_needs_no_brackets_on_the_command_line(text, value):
    """Shells such as zsh take [a,b] for a pattern of file names."""
    assert getattr(load(Lists, overrides=[text]), text.partition("=")[0]) == value


def test_quoted_text_is_no_list():
    with pytest.raises(InvalidConfig, match="write a list"):
        load(Lists, overrides=["names='a,b'"])


def test_a_mistake_in_a_mapping_that_may_be_a_word_is_told_once_by_its_key():
    with pytest.raises(InvalidConfig) as caught:
        load(Lists, overrides=["weights={a: -1, b: 2}"])
    (problem,) = caught.value.problems
    assert problem.message.startswith("weights.a = -1\n    allowed: value >= 0")
