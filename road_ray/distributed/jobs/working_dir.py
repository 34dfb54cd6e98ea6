"""Working directory of a job: files tracked by git and files named on the command line, within a
size limit.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from road_ray.errors import ConfigError

LIMIT_BYTES = 100 * 2**20  # Ray's limit for an uploaded working directory
_SECONDS = 60
_MODELS = ("init", "generator.init", "distillation.teachers")  # keys that name models


def pack_working_dir(
    source: Path, target: Path, *, extra: Sequence[str] = (), exclude: Sequence[str] = ()
) -> list[str]:
    """Copy the files of a job from ``source`` to ``target`` and return their relative paths.

    Tracked files are copied as they are in the working tree, and ``extra`` files even if git does
    not track them. Raises ``ConfigError`` if the total is too large, naming the largest files, and
    for a link out of ``source``, a name that is not UTF-8 and an unreadable file.
    """
    paths = [path for path in tracked_files(source) if not _left_out(path, exclude)]
    paths += [path for path in extra if path not in paths]
    _refuse_unfit(source, paths)
    # Links to directories and deleted files are left out.
    sizes = {path: (source / path).stat().st_size for path in paths if (source / path).is_file()}
    if sum(sizes.values()) > LIMIT_BYTES:
        large = sorted(sizes, key=lambda path: sizes[path], reverse=True)[:5]
        listed = "".join(f"\n    {sizes[path] / 2**20:8.1f} MiB  {path}" for path in large)
        raise ConfigError(
            f"{source}: {sum(sizes.values()) / 2**20:.0f} MiB would be sent, allowed: "
            f"{LIMIT_BYTES / 2**20:.0f} MiB; the largest:{listed}\n"
            "  fix: put data where the machines can read it (data.root), name patterns in "
            "`exclude` of the profile, or take large files out of git\n  nothing was sent"
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
    """Raise ``ConfigError`` for names that a job's archive cannot store, and for links out of the
    tree, whose content would be uploaded.
    """
    if names := [path for path in paths if not _is_utf8(path)]:
        raise ConfigError(
            f"{source}: {len(names)} tracked names are not UTF-8 here and cannot be sent: "
            f"{', '.join(map(ascii, names[:5]))}\n"
            "  fix: rename them, name patterns in `exclude` of the profile, or set a UTF-8 locale "
            "(LC_ALL=C.UTF-8)\n  nothing was sent"
        )
    root = source.resolve()
    away = [path for path in paths if not _resolved(source / path).is_relative_to(root)]
    if away := [path for path in away if (source / path).is_file()]:
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
    return Path(os.path.realpath(path))  # unlike Path.resolve, accepts circular links


def files_of_line(words: Sequence[str], source: Path) -> list[str]:
    """Return the files below ``source`` that a command line names.

    Raises ``ConfigError`` for one outside of ``source``.
    """
    paths = []
    for word in words:
        path = Path(word)
        if path.suffix not in (".yaml", ".yml") or not os.path.isfile(source / path):
            continue
        inside = (source / path).resolve()
        if not inside.is_relative_to(source.resolve()):
            raise ConfigError(
                f"{word}: is outside of {source}, the working directory of the job\n"
                "  fix: copy it here"
            )
        paths.append(str(inside.relative_to(source.resolve())))
    return paths


def refuse_missing_models(words: Sequence[str], source: Path, sent: Sequence[str] = ()) -> None:
    """Raise ``ConfigError`` for a model or a list of teachers that the job cannot find: a relative
    path that is not sent, or an absolute one that is missing in a directory of this machine.

    Names of the hub, and paths on disks that this machine does not have, are left to the job.
    """
    for word in words:
        key, _, value = word.partition("=")
        if key not in _MODELS and not key.startswith("distillation.teachers."):
            continue
        for name in filter(None, (item.strip(" '\"") for item in value.strip("[]").split(","))):
            _refuse_missing(key, name, source, sent)


def _refuse_missing(key: str, name: str, source: Path, sent: Sequence[str]) -> None:
    place = Path(name).expanduser()
    here = source / place
    if not place.is_absolute():
        is_sent = any(path == name or path.startswith(f"{name.rstrip('/')}/") for path in sent)
        if is_sent or not (here.exists() or name.endswith(".json")):
            return
        raise ConfigError(
            f"{key} = {name}: is not sent with the job, which looks for it in a directory of its "
            f"own\n  fix: name it by its absolute path, on a disk that the machines share: "
            f"{here.absolute()}\n  nothing was sent"
        )
    if not here.exists() and (here.parent.is_dir() or here.is_relative_to(source.absolute())):
        raise ConfigError(
            f"{key} = {name}: no such file or directory\n"
            "  fix: check the path; `road teachers` writes teachers.json when all of its teachers "
            "are trained\n  nothing was sent"
        )


def unknown_to_git(source: Path) -> list[str]:
    """Return code and configuration files below ``source`` that are neither tracked nor ignored,
    and thus not sent.
    """
    untracked = _listed(source, "--others", "--exclude-standard")
    return [path for path in untracked if path.endswith((".py", ".yaml", ".yml"))]


def tracked_files(source: Path) -> list[str]:
    """Return the relative paths that git tracks below ``source``; empty outside of a repository."""
    return _listed(source, "--cached")


def _listed(source: Path, *which: str) -> list[str]:
    try:
        output = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", *which],
            cwd=source,
            capture_output=True,
            check=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [name for name in os.fsdecode(output.stdout).split("\0") if name]


def _left_out(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(path, p) or path.startswith(f"{p.rstrip('/')}/") for p in patterns)
