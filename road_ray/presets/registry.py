"""The registry of presets, and the decorator that enters one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from road_ray.config import Config
from road_ray.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Preset:
    """A named configuration of one verb."""

    name: str
    verb: str
    about: str
    make: Callable[[], Config]


PRESETS: dict[str, Preset] = {}

C = TypeVar("C", bound=Config)


def preset(verb: str) -> Callable[[Callable[[], C]], Callable[[], C]]:
    """Enter a function under its own name; its docstring is what ``road presets`` says of it."""

    def enter(make: Callable[[], C]) -> Callable[[], C]:
        about = " ".join((make.__doc__ or "").split())
        PRESETS[make.__name__] = Preset(make.__name__, verb, about, make)
        return make

    return enter


def named(name: str) -> Preset:
    """The preset of that name. Raises ``ConfigError`` naming the nearest one."""
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS)
        raise ConfigError(f"unknown preset {name!r}{hint}\n  known: {', '.join(sorted(PRESETS))}")
    return PRESETS[name]
