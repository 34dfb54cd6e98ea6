"""Texts and paths of a configuration that no file can hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from road_ray.config.path_checks import refuse_unwritable, texts


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("caf\udce9", r"'caf\\udce9' is no UTF-8 here"),
        (Path("a/caf\udce9"), "is no UTF-8 here"),
        (Path("a\0b"), "a zero byte"),
        (Path("x" * 256), "too long"),
        (Path("x/" * 2100), "too long"),
    ],
)
def test_refuse_unwritable_refuses_what_no_file_can_hold(text, why):
    (leaf,) = [one for one in texts({"a": [text]}) if one != "a"]
    with pytest.raises(ValueError, match=why):
        refuse_unwritable(leaf)


@pytest.mark.parametrize("text", ["café", "x" * 5000, Path("été/" + "x" * 255), "a\nb"])
def test_refuse_unwritable_takes_other_text(text):
    refuse_unwritable(text)


def test_a_path_that_the_locale_writes_differently_is_refused(monkeypatch):
    monkeypatch.setattr("os.fsencode", lambda path: str(path).encode("latin-1"))
    with pytest.raises(ValueError, match=r"LC_ALL=C\.UTF-8"):
        refuse_unwritable(Path("été"))
