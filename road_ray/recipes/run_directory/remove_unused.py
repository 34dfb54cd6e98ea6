"""Removal of a run directory in which nothing has begun: a mistake that is found before the first
step, such as a wrong ``data.root``, leaves no directory behind.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from road_ray.recipes.run_directory.input_files import INPUTS
from road_ray.recipes.run_directory.recorded_config import RECORD
from road_ray.recipes.run_directory.run_lock import LOCK

# Written before the recipe starts; ``checkpoints/`` and the journal follow with the training.
_RECORDS = {LOCK, RECORD, INPUTS, "environment.json", "teachers.json"}


def missing_above(directory: Path) -> list[Path]:
    """Return ``directory`` and its parents that do not exist, the deepest first."""
    missing = []
    for path in (directory, *directory.parents):
        if path.exists():
            break
        missing.append(path)
    return missing


@contextmanager
def removed_if_unused(directory: Path, created: list[Path]) -> Iterator[None]:
    """Remove the directories in ``created`` if the block fails while ``directory``, the first of
    them, holds nothing but the record of a run. The caller holds the lock.

    A directory that was there before, or in which anything else has been written, stays as it is.
    """
    try:
        yield
    except BaseException:
        if created and _is_unused(directory):
            with contextlib.suppress(OSError):  # another process writes there, or Windows' lock
                for name in _RECORDS:
                    (directory / name).unlink(missing_ok=True)
                for path in created:
                    path.rmdir()
        raise


def _is_unused(directory: Path) -> bool:
    try:
        return set(os.listdir(directory)) <= _RECORDS
    except OSError:
        return False
