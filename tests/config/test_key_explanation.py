"""Explanations of single keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field

from road_ray.config import Config
from road_ray.config.schema import UNSET, key_info, section_infos


class Inner(Config):
    """A section. Source of the defaults: Clark et al. 2020, table 6."""

    rate: float = Field(0.5, gt=0, le=1)
    """Updates a second. Source: Hinton et al. 2015, section 2. Lower it for small data."""
    path: Path | None = None
    """Where it stands."""


class Outer(Config):
    needed: int
    inner: Inner = Inner(rate=0.25)
    maybe: Inner | None = None
    many: dict[str, Inner] = Field({})


@pytest.mark.parametrize(
    ("key", "type_", "default"),
    [
        ("needed", "whole number", UNSET),
        ("inner", "section", {"rate": 0.25, "path": None}),
        ("inner.rate", "number", 0.25),
        ("inner.path", "path or null", None),
        ("maybe.rate", "number", 0.5),
        ("many.any.rate", "number", 0.5),
        ("many", "mapping of names to section", {}),
    ],
)
def test_a_key_has_the_type_and_the_default_of_its_place(key, type_, default) -> None:
    info = key_info(Outer, tuple(key.split(".")))
    assert info is not None
    assert (info.type, info.default) == (type_, default)


def test_the_source_of_a_key_is_its_own_or_that_of_its_section() -> None:
    rate, path = section_infos(Outer, ("inner",))
    assert rate.meaning == "Updates a second. Lower it for small data."
    assert rate.source == "Hinton et al. 2015, section 2"
    assert (path.meaning, path.source) == ("Where it stands.", "Clark et al. 2020, table 6")


def test_an_unknown_key_has_no_explanation() -> None:
    assert key_info(Outer, ("inner", "rte")) is None
    assert key_info(Outer, ()) is None
