"""The guess at what was meant by a key that does not exist, and the layout of all mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field, field_validator

from road_ray.config import Config, load
from road_ray.config.messages import InvalidConfig, unknown_key
from road_ray.errors import ConfigError, Problem


class Inner(Config):
    peak_lr: float = 1.0
    layer_decay: float = 1.0


class Example(Config):
    above: float = Field(0.5, gt=0)
    flag: bool = False
    names: list[str] = Field(default_factory=list)
    inner: Inner = Inner()


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        (("abov",), "above"),
        (("layer_decay",), "inner.layer_decay"),
        (("layer_decya",), "inner.layer_decay"),
        (("iner", "peak_lr"), "inner.peak_lr"),
        (("inner", "peek_lr"), "inner.peak_lr"),
        (("inner", "flag"), "flag"),
        (("iner", "peek_lr"), "inner.peak_lr"),
        (("inne", "zzz"), "inner"),
    ],
)
def test_the_nearest_key_is_suggested_with_its_whole_name(
    key: tuple[str | int, ...], meant: str
) -> None:
    assert unknown_key(Example, key, 1, "here").remedy == f"did you mean {meant!r}?"


def test_without_a_near_key_the_known_ones_are_listed() -> None:
    problem = unknown_key(Example, ("inner", "zzz"), 1, "here")
    assert "allowed in section 'inner': peak_lr, layer_decay" in problem.message
    assert problem.remedy.startswith("remove 'inner.zzz'")


def test_of_very_many_mistakes_the_first_are_shown() -> None:
    text = str(InvalidConfig([Problem(f"a.yaml:{line}", "x = 1") for line in range(1, 31)]))
    assert text.count("error[CONFIG]") == 20
    assert text.splitlines()[-1] == (
        "  30 mistakes; 10 of them are not shown; nothing was started; no file was changed"
    )


class Described(Config):
    inner: Inner = Inner(peak_lr=0.25)
    wrong: float = Field(0.75, ge=0, le=1)
    """The weight of a teacher that is wrong."""
    rule: str = "mean"
    """The name of a weighting rule."""

    @field_validator("rule")
    @classmethod
    def _known(cls, rule: str) -> str:
        if rule != "mean":
            raise ValueError("no such rule; allowed: mean")
        return rule


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"wrnog": 1}, "meaning: wrong: The weight of a teacher that is wrong."),
        ({"wrong": 2}, "meaning: The weight of a teacher that is wrong."),
        ({"rule": "max"}, "meaning: The name of a weighting rule."),
        ({"inner.peak_lr": []}, "(default: 0.25)"),
    ],
)
def test_a_mistake_shows_the_meaning_and_the_default_of_its_key(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(Described, overrides=changes)
    assert words in str(caught.value)
