"""The guess at what was meant by a key that does not exist, and the layout of all mistakes."""

from __future__ import annotations

import pytest
from pydantic import Field

from road_ray.config import Config
from road_ray.config.messages import InvalidConfig, unknown_key
from road_ray.errors import Problem


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


def test_of_very_many_mistakes_the_first_are_shown() -> None:
    text = str(InvalidConfig([Problem(f"a.yaml:{line}", "x = 1") for line in range(1, 31)]))
    assert text.count("error[CONFIG]") == 20
    assert text.splitlines()[-1] == (
        "  30 mistakes; 10 of them are not shown; nothing was started; no file was changed"
    )
