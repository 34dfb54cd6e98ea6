"""What is sent along with a job: the files that git tracks and those that the line names, nothing
else; weighed before anything is uploaded.
"""

from __future__ import annotations

import fnmatch
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from road_ray.errors import ConfigError

LIMIT_BYTES = 100 * 2**20  # of Ray, for a working directory that travels by itself
_SECONDS = 60


def packed(
    source: Path, target: Path, *, named: Sequence[str] = (), exclude: Sequence[str] = ()
) -> list[str]:
    """Copies to ``target`` what a job needs of ``source``; gives the relative paths.

    Tracked files as they lie there, changed ones included; files of the command line also when
    git does not know them. Raises ``ConfigError`` with the largest when it is too much.
    """
    paths = [path for path in _tracked(source) if not _left_out(path, exclude)]
    paths += [path for path in named if path not in paths]
    sizes = {path: (source / path).stat().st_size for path in paths if _is_plain(source / path)}
    if sum(sizes.values()) > LIMIT_BYTES:
        large = sorted(sizes, key=lambda path: sizes[path], reverse=True)[:5]
        listed = "".join(f"\n    {sizes[path] / 2**20:8.1f} MiB  {path}" for path in large)
        raise ConfigError(
            f"{source}: {sum(sizes.values()) / 2**20:.0f} MiB would be sent, allowed: "
            f"{LIMIT_BYTES / 2**20:.0f} MiB; the largest:{listed}\n"
            "  fix: put data where the machines see it (data.root), name patterns in `exclude` of "
            "the profile, or take large files out of git\n  nothing was sent"
        )
    for path in sizes:
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / path, place)
    return sorted(sizes)


def files_of_line(words: Sequence[str], source: Path) -> list[str]:
    """Files below ``source`` that a command line names; one that lies elsewhere is refused."""
    found = []
    for word in words:
        path = Path(word)
        if path.suffix not in (".yaml", ".yml") or not (source / path).is_file():
            continue
        inside = (source / path).resolve()
        if not inside.is_relative_to(source.resolve()):
            raise ConfigError(
                f"{word}: lies outside of {source}, which is what a job takes along\n"
                "  fix: copy it here"
            )
        found.append(str(inside.relative_to(source.resolve())))
    return found


def unknown_to_git(source: Path) -> list[str]:
    """Code and configurations below ``source`` that are neither tracked nor ignored: forgotten,
    perhaps, and not sent.
    """
    others = _listed(source, "--others", "--exclude-standard")
    return [path for path in others if path.endswith((".py", ".yaml", ".yml"))]


def _tracked(source: Path) -> list[str]:
    """Relative paths that git tracks below ``source``; none outside of a repository."""
    return _listed(source, "--cached")


def _listed(source: Path, *which: str) -> list[str]:
    try:
        told = subprocess.run(
            ["git", "ls-files", "-z", *which],
            cwd=source,
            capture_output=True,
            check=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [name for name in told.stdout.decode().split("\0") if name]


def _left_out(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(path, p) or path.startswith(f"{p.rstrip('/')}/") for p in patterns)


def _is_plain(path: Path) -> bool:
    """A file that is there; links to directories and deleted ones do not travel."""
    return path.is_file()
