"""Provenance of a run: versions, devices, source revision."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from road_ray.reporting.environment_check import devices

_PACKAGES = ("road-ray", "torch", "transformers", "tokenizers", "ray", "numpy", "pyarrow")


def environment() -> dict[str, object]:
    """Return versions and devices of the process that starts the run."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "devices": devices(),
        "packages": {name: version_of(name) for name in _PACKAGES},
        "revision": revision(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:2]],  # no arguments: they may hold secrets
    }


@cache
def version_of(package: str) -> str:
    """Return the version of an installed package, or "not installed"."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@cache
def revision() -> str:
    """Return the git revision of the source tree of this code, or "unknown"."""
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=5,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
