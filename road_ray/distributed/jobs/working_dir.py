"""What is sent along with a job: the files that git tracks and those that the line names, nothing
else; weighed before anything is uploaded.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from road_ray.errors import ConfigError

LIMIT_BYTES = 100 * 2**20  # of Ray, for a working directory that travels by itself
_SECONDS = 60


def pack_working_dir(
    source: Path, target: Path, *, named: Sequence[str] = (), exclude: Sequence[str] = ()
) -> list[str]:
    """Copies to ``target`` what a job needs of ``source``; gives the relative paths.

    Tracked files as they lie there, changed ones included; files of the command line also when
    git does not know them. Raises ``ConfigError`` with the largest when it is too much, and for
    a link that leads out of ``source``, a name that is no UTF-8 and a file that cannot be read.
    """
    paths = [path for path in _tracked(source) if not _left_out(path, exclude)]
    paths += [path for path in named if path not in paths]
    _refuse_unfit(source, paths)
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
        try:
            shutil.copy2(source / path, place)
        except OSError as error:
            raise ConfigError(
                f"{source / path}: cannot be read: {error.strerror}\n"
                "  fix: make it readable, or name it in `exclude` of the profile\n"
                "  nothing was sent"
            ) from error
    return sorted(sizes)


def _refuse_unfit(source: Path, paths: Sequence[str]) -> None:
    """Raises ``ConfigError`` for names that the archive of a job cannot hold, and for links whose
    content is not of this tree: it would be sent to a cluster that others read.
    """
    if names := [path for path in paths if not _is_utf8(path)]:
        raise ConfigError(
            f"{source}: {len(names)} tracked names are no UTF-8 here and cannot be sent: "
            f"{', '.join(map(ascii, names[:5]))}\n"
            "  fix: rename them, name patterns in `exclude` of the profile, or set a UTF-8 locale "
            "(LC_ALL=C.UTF-8)\n  nothing was sent"
        )
    root = source.resolve()
    away = [path for path in paths if not _resolved(source / path).is_relative_to(root)]
    if away := [path for path in away if _is_plain(source / path)]:
        listed = "".join(f"\n    {path} -> {_resolved(source / path)}" for path in away[:5])
        raise ConfigError(
            f"{source}: {len(away)} tracked links lead out of it, and their content would be sent:"
            f"{listed}\n"
            "  fix: copy the files here, or name the links in `exclude` of the profile\n"
            "  nothing was sent"
        )


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))  # unlike Path.resolve, takes links in a circle


def files_of_line(words: Sequence[str], source: Path) -> list[str]:
    """Files below ``source`` that a command line names; one that lies elsewhere is refused."""
    found = []
    for word in words:
        path = Path(word)
        if path.suffix not in (".yaml", ".yml") or not os.path.isfile(source / path):
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
            ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", *which],
            cwd=source,
            capture_output=True,
            check=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [name for name in os.fsdecode(told.stdout).split("\0") if name]


def _left_out(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(path, p) or path.startswith(f"{p.rstrip('/')}/") for p in patterns)


def _is_plain(path: Path) -> bool:
    """A file that is there; links to directories and deleted ones do not travel."""
    return path.is_file()
