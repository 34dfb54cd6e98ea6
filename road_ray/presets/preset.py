"""Class of presets, and the decorator that makes a preset from a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from road_ray.config import Config

C = TypeVar("C", bound=Config, covariant=True)


@dataclass(frozen=True)
class Preset(Generic[C]):
    """A named configuration of one verb. A call returns the configuration."""

    name: str
    verb: str
    about: str
    make: Callable[[], C]

    def __call__(self) -> C:
        return self.make()


def preset(verb: str) -> Callable[[Callable[[], C]], Preset[C]]:
    """Return a decorator that makes a preset of a function, with its name; the docstring is the
    line of ``road presets``.
    """

    def decorate(make: Callable[[], C]) -> Preset[C]:
        return Preset(make.__name__, verb, " ".join((make.__doc__ or "").split()), make)

    return decorate
