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

_MODEL = r"^((?:generator\.)?init|distillation\.teachers[^=]*)=(.*)$"  # words that name models
LIMIT_BYTES = 100 * 2**20  # Ray's limit for an uploaded working directory


def pack_working_dir(
    source: Path, target: Path, *, words: Sequence[str] = (), exclude: Sequence[str] = ()
) -> list[str]:
    """Copy the files of a job from ``source`` to ``target`` and return their relative paths: those
    that git tracks and no pattern of ``exclude`` matches, as they are in the working tree, and the
    YAML files that ``words`` name. Secrets are rarely tracked, so nothing else is sent, and no file
    outside of ``source`` to which a link leads.

    Raises ``ConfigError`` for too much in all, for such a YAML file outside of ``source``, and for
    a model or teachers in ``words`` that are here but not sent, which the job would not find.
    """
    root = source.resolve()
    named = [word for word in words if word.endswith((".yaml", ".yml"))]
    named = [word for word in named if (source / word).is_file()]
    for word in named:
        if not (source / word).resolve().is_relative_to(root):
            raise ConfigError(
                f"{word}: is outside of {source}, the working directory of the job\n"
                "  fix: copy it here"
            )
    named = [str((source / word).resolve().relative_to(root)) for word in named]
    tracked = [
        path
        for path in tracked_files(source)
        if not any(
            fnmatch.fnmatch(path, p) or path.startswith(f"{p.rstrip('/')}/") for p in exclude
        )
    ]
    paths = [
        path
        for path in dict.fromkeys([*tracked, *named])
        if (source / path).is_file() and (source / path).resolve().is_relative_to(root)
    ]
    for key, name in re.findall(_MODEL, "\n".join(words), re.MULTILINE):
        for one in re.findall(r"[^\[\], '\"]+", name):
            sent = any(path == one or path.startswith(f"{one.rstrip('/')}/") for path in paths)
            if not Path(one).is_absolute() and (source / one).exists() and not sent:
                raise ConfigError(
                    f"{key} = {one}: a job runs in a directory of its own and does not find it\n"
                    "  allowed: an absolute path on a disk that the machines share\n"
                    "  nothing was sent"
                )
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
