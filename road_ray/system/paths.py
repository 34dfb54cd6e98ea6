"""Paths from configuration and environment, and the cache directory."""

from __future__ import annotations

import os
from pathlib import Path

from road_ray.errors import ConfigError, did_you_mean, shorten

CACHE = "ROAD_CACHE"
STDIN = "-"  # in place of the path of an input


def path_of(text: str, key: str) -> Path:
    """Return the path in ``text``, the value of ``key``, with ``~`` expanded.

    Raises ``ConfigError`` if it is inaccessible: too long, no home directory, no permission.
    """
    try:
        place = Path(text).expanduser()
        place.exists()
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(
            f"{key} = {shorten(text)}: {why}\n  allowed: a path that this user can access"
        ) from error
    return place


def nearest_path(path: Path) -> str:
    """Return ``; did you mean 'x'?`` for the file of that folder, or the folder beside, whose name
    is nearest to that of a missing file; an empty text without one.
    """
    while path.parent != path and not path.parent.exists():
        path = path.parent
    try:
        return did_you_mean(path.name, [other.name for other in path.parent.iterdir()])
    except OSError:
        return ""


def check_new(path: Path) -> None:
    """Raise ``ConfigError`` if ``path`` exists: an output is never overwritten."""
    if path.exists():
        raise ConfigError(
            f"output = {path}: already exists\n  fix: name another, or move it\n  kept: {path}"
        )


def check_input(source: str) -> None:
    """Raise ``ConfigError`` if ``source`` is neither a file nor ``-``, which is standard input."""
    if source != STDIN and not Path(source).expanduser().is_file():
        raise ConfigError(
            f"{source}: no such file{nearest_path(Path(source).expanduser())}\n"
            "  fix: name a file, or - for lines of standard input"
        )


def cache_home() -> Path:
    """Return ``ROAD_CACHE`` or ``~/.cache/road_ray``. Raises ``ConfigError`` without a home
    directory.
    """
    if directory := os.environ.get(CACHE):
        return path_of(directory, CACHE)
    try:
        return Path.home() / ".cache" / "road_ray"
    except RuntimeError as error:
        raise ConfigError(
            f"{CACHE} is not set, and this user has no home directory ({error})\n"
            f"  fix: {CACHE}=a directory that can be written"
        ) from error
