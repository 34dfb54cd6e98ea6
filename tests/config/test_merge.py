"""Values laid over each other: what is merged, what is replaced, and whom a mistake is laid to."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import Field, model_validator

from road_ray.config import Config, load
from road_ray.config.merge import _Merged
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


def _layers(*layers: tuple[dict[str, Any], str]) -> _Merged:
    merged = _Merged(Example, "my.yaml")
    for values, origin in layers:
        merged.put((), values, origin)
    return merged


def _places(layers: _Merged) -> list[str]:
    with pytest.raises(InvalidConfig) as caught:
        layers.validated(Example)
    return [problem.where for problem in caught.value.problems]


def test_sections_and_dicts_are_merged_and_lists_are_replaced() -> None:
    first = {"span": {"low": 0.1}, "table": {"a": 1, "b": 2}, "spans": [{"low": 0}, {"low": 0.5}]}
    second = {"span": {"high": 0.9}, "table": {"b": 3}, "spans": [{"high": 2}]}
    config = _layers((first, "one"), (second, "two")).validated(Example)
    assert config.span == Range(low=0.1, high=0.9)
    assert config.table == {"a": 1, "b": 3}
    assert config.spans == [Range(high=2)]


def test_a_mistake_is_laid_to_the_source_that_made_it() -> None:
    assert _places(_layers(({"seed": "x"}, "one"), ({"table": {"a": 1}}, "two"))) == ["one"]
    assert _places(_layers(({"seed": "x"}, "one"), ({"seed": "y"}, "two"))) == ["two"]
    assert _places(_layers(({"table": {"a": "x"}}, "one"), ({"table": 1}, "two"))) == ["two"]
    assert _places(_layers(({"spans": [{"low": "x"}]}, "one"))) == ["one"]


def test_a_later_value_mends_an_earlier_mistake() -> None:
    config = _layers(({"seed": "x", "table": 3}, "one"), ({"seed": 1, "table": {"a": 1}}, "two"))
    assert config.validated(Example) == Example(seed=1, table={"a": 1})


def test_the_layers_below_are_not_changed() -> None:
    base = {"span": {"low": 0.1}, "table": {"a": 1}}
    layers = _layers((base, "one"))
    layers.put_overrides(["span.low=0.2", "table.b=2"])
    layers.validated(Example)
    assert base == {"span": {"low": 0.1}, "table": {"a": 1}}


def test_a_rule_between_keys_is_told_at_its_section() -> None:
    layers = _layers(({"span": {"low": 3}}, "one"))
    with pytest.raises(InvalidConfig, match=r"one  span: low \(3.0\) must not be above high"):
        layers.validated(Example)


@pytest.mark.parametrize("value", ["x", {"low": "y"}, None])
def test_a_value_that_fits_no_alternative_is_one_mistake_at_its_key(value: Any) -> None:
    layers = _layers(({"union": value}, "one"))
    with pytest.raises(InvalidConfig) as caught:
        layers.validated(Example)
    assert all(problem.where == "one" for problem in caught.value.problems)
    assert all(problem.message.startswith("union") for problem in caught.value.problems)


def test_a_refused_key_is_not_told_again_as_missing() -> None:
    class Needy(Config):
        task: str

    layers = _Merged(Needy, "my.yaml")
    layers.put_overrides(["task"])
    layers.refused.add(("task",))
    with pytest.raises(InvalidConfig) as caught:
        layers.validated(Needy)
    assert [problem.message for problem in caught.value.problems] == ["has no '='"]


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


@pytest.mark.parametrize(
    ("text", "names", "layers"),
    [
        ("names=a,b", ("a", "b"), 1),
        ("names=a", ("a",), 1),
        ("names=[a, b]", ("a", "b"), 1),
        ("names='a,b'", None, 1),
        ("layers=0,5", (), (0, 5)),
        ("layers=3", (), 3),
        ("either=a,b", (), 1),
        ("either=a", (), 1),
        ("layers=all", (), "all"),
    ],
)
def test_a_list_needs_no_brackets_on_the_command_line(text, names, layers):
    """Shells such as zsh take [a,b] for a pattern of file names."""

    class Lists(Config):
        names: tuple[str, ...] = ()
        layers: Literal["all"] | int | tuple[int, ...] = 1
        either: str | tuple[str, ...] = ""

    if names is None:  # quoted: text, which is no list
        with pytest.raises(InvalidConfig, match="write a list"):
            load(Lists, overrides=[text])
        return
    loaded = load(Lists, overrides=[text])
    assert (loaded.names, loaded.layers) == (names, layers)
    either = {"either=a,b": ("a", "b"), "either=a": "a"}
    assert loaded.either == either.get(text, "")
