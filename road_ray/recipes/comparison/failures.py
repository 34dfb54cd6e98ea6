"""Error of a comparison in which some runs failed; the others have their table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from road_ray.errors import ConfigError, RoadError


def failure(
    directory: Path, count: int, failed: Sequence[tuple[str, RoadError]], table: str
) -> RoadError:
    """Return the error of ``failed`` runs, each with its name, of ``count``; it is of the kind of
    the first, and so is the exit code. ``table`` is the file with the figures of the others.
    """
    first = failed[0][1]
    listed = "\n    ".join(f"{name}: {reason_of(error)}" for name, error in failed)
    return same_kind(
        first,
        f"{len(failed)} of {count} runs of {directory} failed:\n    {listed}\n"
        f"  the first: {first}\n"
        f"  kept: the others, and their table in {directory / table}\n"
        "  fix: remove the cause; to run the failed ones again, run the same command",
    )


def reason_of(error: RoadError) -> str:
    """Return the first line of an error."""
    return str(error).splitlines()[0]


def same_kind(error: RoadError, message: str) -> RoadError:
    """Return an error of the same kind and exit code with another message."""
    # Errors of configurations are made of problems, not of a message.
    kind = ConfigError if isinstance(error, ConfigError) else type(error)
    return kind(message)
