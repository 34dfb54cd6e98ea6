"""Typed errors that a user can act on, each with the exit code that the ``road`` command returns.

A message says what is wrong, where (``file:line`` or configuration key), the value seen, what is
allowed, how to fix it, and what was kept. Any other exception is a bug of road_ray (exit code 1).
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar


class RoadError(Exception):
    """An error that is not a bug of road_ray; ``exit_code`` is what the process returns."""

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "ERROR"


class ConfigError(RoadError):
    """A mistake in a configuration, a flag or an argument; known before anything started."""

    exit_code = 2
    kind = "CONFIG"


class DataError(RoadError):
    """A file, row, label or span that cannot be used."""

    exit_code = 3
    kind = "DATA"


class ResourceError(RoadError):
    """Missing disk space, memory, device or permission."""

    exit_code = 4
    kind = "RESOURCE"


class ClusterError(ResourceError):
    """A cluster, an actor or a teacher that cannot be placed, reached or trusted."""

    kind = "CLUSTER"


class CheckpointError(ResourceError):
    """A checkpoint or model directory that is damaged, foreign or of another shape."""

    kind = "CHECKPOINT"


class DivergedError(RoadError):
    """A loss or gradient that is not finite; the last good checkpoint is kept."""

    exit_code = 5
    kind = "DIVERGED"


class InterruptedRunError(RoadError):
    """A run that was stopped from outside after it saved its state; the same command resumes it."""

    exit_code = 6
    kind = "INTERRUPTED"


@dataclass(frozen=True)
class Problem:
    """One mistake: where it is, what is wrong, how to fix it."""

    where: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        fix = f"\n    fix: {self.remedy}" if self.remedy else ""
        return f"{self.where}  {self.message}{fix}"


def require(where: str, extra: str, *packages: str) -> None:
    """Raise ``ConfigError`` for one of the ``packages`` of an extra that is not installed."""
    for name in packages:
        if find_spec(name) is None:
            raise ConfigError(
                f"{where}: the package {name} is not installed\n"
                f"  fix: pip install 'road-ray[{extra}]'"
            )


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name most similar to ``name``, or None if none reaches ``cutoff``."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the nearest known name, or an empty text without one."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 row``, ``1,200 rows``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def first_line(error: BaseException | str) -> str:
    """Return the first line of an error's text, or the name of its type if it has no text."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def shorten(text: str, limit: int = 80) -> str:
    """Return the text, or its beginning if it is longer than ``limit``."""
    return text if len(text) <= limit else text[:limit] + "..."
