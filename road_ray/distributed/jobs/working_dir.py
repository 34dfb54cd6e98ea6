"""Working directory of a job: files tracked by git and files named on the command line."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from road_ray.errors import ConfigError

LIMIT_BYTES = 100 * 2**20  # Ray's limit for an uploaded working directory
_MODELS = ("init", "generator.init", "distillation.teachers")  # keys that name models


def pack_working_dir(
    source: Path, target: Path, *, words: Sequence[str] = (), exclude: Sequence[str] = ()
) -> list[str]:
    """Copy the files of a job from ``source`` to ``target`` and return their relative paths: those
    that git tracks and no pattern of ``exclude`` matches, as they are in the working tree, and the
    YAML files that ``words`` name. Secrets are rarely tracked, so nothing else is sent, and no file
    outside of ``source`` to which a link leads.

    Raises ``ConfigError`` if the total is too large.
    """
    root = source.resolve()
    tracked = [
        path
        for path in tracked_files(source)
        if not any(
            fnmatch.fnmatch(path, p) or path.startswith(f"{p.rstrip('/')}/") for p in exclude
        )
    ]
    paths = [
        path
        for path in dict.fromkeys([*tracked, *_files_of_line(words, source)])
        if (source / path).is_file() and (source / path).resolve().is_relative_to(root)
    ]
    sizes = {path: (source / path).stat().st_size for path in paths}
    if sum(sizes.values()) > LIMIT_BYTES:
        large = sorted(sizes, key=lambda path: sizes[path], reverse=True)[:5]
        raise ConfigError(
            f"{source}: {sum(sizes.values()) / 2**20:.0f} MiB would be sent, allowed: "
            f"{LIMIT_BYTES / 2**20:.0f} MiB; the largest: {', '.join(large)}\n"
            "  fix: put data where the machines can read it (data.root), or name patterns in "
            "`exclude` of the profile\n  nothing was sent"
        )
    for path in paths:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / path, target / path)
    return paths


def _files_of_line(words: Sequence[str], source: Path) -> list[str]:
    """Return the YAML files that a command line names. Raises ``ConfigError`` for one outside of
    ``source``.
    """
    files = [word for word in words if word.endswith((".yaml", ".yml"))]
    files = [word for word in files if os.path.isfile(source / word)]
    for word in files:
        if not (source / word).resolve().is_relative_to(source.resolve()):
            raise ConfigError(
                f"{word}: is outside of {source}, the working directory of the job\n"
                "  fix: copy it here"
            )
    return [str((source / word).resolve().relative_to(source.resolve())) for word in files]


def tracked_files(source: Path) -> list[str]:
    """Return the relative paths that git tracks below ``source``; empty outside of a repository."""
    try:
        output = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "ls-files", "-z"],
            cwd=source,
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [name for name in os.fsdecode(output.stdout).split("\0") if name]


def refuse_missing_models(words: Sequence[str], source: Path, sent: Sequence[str] = ()) -> None:
    """Raise ``ConfigError`` for a model or a list of teachers that the job cannot find: a relative
    path that is not sent, or an absolute one that is missing in a directory of this machine.

    Names of the hub, and paths on disks that this machine does not have, are left to the job.
    """
    for word in words:
        key, _, value = word.partition("=")
        if key not in _MODELS and not key.startswith("distillation.teachers."):
            continue
        for name in re.findall(r"[^\[\], '\"]+", value):
            place = source / Path(name).expanduser()
            if Path(name).expanduser().is_absolute():
                known = place.parent.is_dir() or place.is_relative_to(source.absolute())
                missing = known and not place.exists()
            else:
                is_sent = any(p == name or p.startswith(f"{name.rstrip('/')}/") for p in sent)
                missing = not is_sent and (place.exists() or name.endswith(".json"))
            if missing:
                raise ConfigError(
                    f"{key} = {name}: a job, which runs in a directory of its own, does not find "
                    "it\n  allowed: the absolute path of a file that is there, on a disk that the "
                    "machines share\n  nothing was sent"
                )
