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


def named(name: str, verb: str | None = None) -> Preset:
    """The preset of that name. Raises ``ConfigError`` naming the nearest one, of ``verb`` if it is
    given.
    """
    if name not in PRESETS:
        known = sorted(one.name for one in PRESETS.values() if verb in (None, one.verb))
        hint = did_you_mean(name, known)
        of = f" of `road {verb}`" if verb else ""
        raise ConfigError(f"unknown preset {name!r}{hint}\n  known{of}: {', '.join(known)}")
    return PRESETS[name]
