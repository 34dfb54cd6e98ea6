"""Sizes and sha256 of files, by which checkpoints and finished runs detect damage."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hashes_of(
    directory: Path, paths: Iterable[Path], known: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return ``bytes`` and ``sha256`` of each file by its name below ``directory``; files whose
    sha256 is ``known`` are not read.
    """
    names = {path.relative_to(directory).as_posix(): path for path in paths}
    return {
        name: {"bytes": path.stat().st_size, "sha256": (known or {}).get(name) or sha256_of(path)}
        for name, path in names.items()
    }


def problems_of(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each file that differs from its entry in ``files`` by ``hashes_of``."""
    problems = (_problem(directory, name, f["bytes"], f["sha256"]) for name, f in files.items())
    return [problem for problem in problems if problem]


def _problem(directory: Path, name: str, size: int, digest: str) -> str | None:
    path = directory / name
    try:
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes, {size} were written"
        if sha256_of(path) != digest:
            return f"{name} has the right size but other content (sha256 differs)"
    except FileNotFoundError:
        return f"{name} is missing"
    except (OSError, ValueError) as error:
        return f"{name} cannot be read: {error}"
    return None
