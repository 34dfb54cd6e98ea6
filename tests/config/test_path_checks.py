"""Texts and paths of a configuration that no file can hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from road_ray.config import Config, load
from road_ray.errors import ConfigError


class Example(Config):
    place: Path = Path("x")
    name: str = ""


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("place", "a\0b", "a zero byte"),
        ("place", "a/caf\udce9", "no UTF-8"),
        ("name", "caf\udce9", "no UTF-8"),
    ],
)
def test_what_no_file_can_hold_is_refused_at_its_key(key, text, why):
    with pytest.raises(ConfigError, match=rf"{key} = (?s:.)*{why}"):
        load(Example, overrides=[f"{key}={text}"])


@pytest.mark.parametrize("text", ["café", "x" * 5000, "a\nb"])
def test_other_text_is_taken(text):
    assert load(Example, overrides={"name": text}).name == text
