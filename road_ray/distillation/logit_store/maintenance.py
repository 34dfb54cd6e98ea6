"""Maintenance of a store: list, verify, merge and prune.

Operations that change or remove files do not wait: a directory that a run has open is refused.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from road_ray.distillation.logit_store.logit_shards import (
    DAMAGED,
    Shard,
    quarantine,
    read_shard,
    shards_in,
    write_shard,
)
from road_ray.distillation.logit_store.teacher_store import LOCK, MANIFEST
from road_ray.errors import ConfigError, DataError, ResourceError
from road_ray.system.file_lock import lock_exclusively
from road_ray.system.json_file import read_json

_SECONDS_A_DAY = 86400.0
_GONE = ".gone"  # suffix of a directory while it is removed


@dataclass(frozen=True)
class StoredTeacher:
    """One teacher's directory of a store."""

    directory: Path
    manifest: dict[str, Any]
    shards: list[Path]
    num_bytes: int
    num_damaged: int
    unused_days: float

    @property
    def num_rows(self) -> int:
        """Number of rows in all shards. Raises ``ValueError`` for a damaged one."""
        return sum(len(read_shard(path).keys) for path in self.shards)


def list_teachers(root: str | Path) -> list[StoredTeacher]:
    """Return the teachers of a store, by name. Raises ``ConfigError`` if there is no store."""
    root = Path(root).expanduser()
    manifests = sorted(root.glob(f"[!.]*/{MANIFEST}")) if root.is_dir() else []
    if not manifests:
        raise ConfigError(
            f"{root}: no store of logits here\n  allowed: the value of distillation.store of a run"
        )
    return [_stored(path) for path in manifests]


def select_teachers(teachers: Sequence[StoredTeacher], names: Sequence[str]) -> list[StoredTeacher]:
    """Return the teachers whose names start with one of ``names``; all if it is empty."""
    for name in names:
        if not any(teacher.directory.name.startswith(name) for teacher in teachers):
            known = ", ".join(teacher.directory.name for teacher in teachers)
            raise ConfigError(f"{name}: no teacher of this store\n  allowed: {known}")
    return [t for t in teachers if not names or t.directory.name.startswith(tuple(names))]


def find_damage(teacher: StoredTeacher, *, put_aside: bool = False) -> list[str]:
    """Return the problems of the shards, one line each; ``put_aside`` quarantines damaged ones."""
    problems = []
    for path in teacher.shards:
        try:
            read_shard(path)
        except OSError as error:
            problems.append(f"{path.name}: cannot be read: {error.strerror}")
        except ValueError as error:
            problems.append(f"{path.name}: {error}")
            if put_aside:
                quarantine(path, str(error))
    return problems


def merge(teacher: StoredTeacher) -> tuple[int, int]:
    """Merge all shards into one, with the oldest answer of each row; return the new numbers of
    files and rows.

    The new file is committed before the old ones are removed, so a kill in between loses nothing.
    Raises ``DataError`` for a damaged shard.
    """
    with _exclusive(teacher.directory):
        paths = shards_in(teacher.directory)
        shards = [_read_undamaged(path) for path in paths]
        rows = sum(len(shard.keys) for shard in shards)
        if len(shards) < 2:
            return len(shards), rows
        keys, counts, values = _concatenated(shards)
        made = write_shard(teacher.directory, keys, counts, values)
        for path in paths:
            if path != made:
                path.unlink()
        return 1, len(keys)


def prune(
    teachers: Sequence[StoredTeacher], *, unused_days: float | None = None
) -> Iterator[StoredTeacher]:
    """Remove the teachers' directories, or those unused for ``unused_days``, and yield each removed
    teacher. Leftovers of an interrupted removal are removed too.
    """
    for root in {teacher.directory.parent for teacher in teachers}:
        for leftover in root.glob(f".*{_GONE}"):
            shutil.rmtree(leftover, ignore_errors=True)
    for teacher in teachers:
        if unused_days is not None and teacher.unused_days < unused_days:
            continue
        with _exclusive(teacher.directory):
            # Renamed first, so a kill leaves no incomplete directory under its name.
            aside = teacher.directory.with_name(f".{teacher.directory.name}{_GONE}")
            teacher.directory.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
        yield teacher


def _read_undamaged(path: Path) -> Shard:
    try:
        return read_shard(path)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: damaged shard: {error}\n"
            f"  fix: road data store verify {path.parents[1]} {path.parent.name} --put-aside; its "
            "rows are then computed again\n"
            "  kept: all shards of this teacher, as they are"
        ) from error


def remove_damaged(teacher: StoredTeacher) -> int:
    """Delete quarantined shards and return their number."""
    paths = list(teacher.directory.glob(f"*{DAMAGED}"))
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)


def _concatenated(shards: Sequence[Shard]) -> tuple[Any, Any, Any]:
    keys = np.concatenate([shard.keys for shard in shards])
    counts = np.concatenate([shard.counts for shard in shards])
    values = np.concatenate([shard.values for shard in shards])
    _, first = np.unique(keys, axis=0, return_index=True)
    keep = np.zeros(len(keys), np.bool_)
    keep[first] = True
    return keys[keep], counts[keep], values[np.repeat(keep, counts)]


def _stored(manifest: Path) -> StoredTeacher:
    directory = manifest.parent
    shards = shards_in(directory)
    return StoredTeacher(
        directory=directory,
        manifest=read_json(
            manifest, error=DataError, fix="delete it; the next run writes it again"
        ),
        shards=shards,
        num_bytes=sum(path.stat().st_size for path in shards),
        num_damaged=len(list(directory.glob(f"*{DAMAGED}"))),
        unused_days=(time.time() - manifest.stat().st_mtime) / _SECONDS_A_DAY,
    )


@contextmanager
def _exclusive(directory: Path) -> Iterator[None]:
    with (directory / LOCK).open("a+", encoding="utf-8") as lock:
        if lock_exclusively(lock):
            raise ResourceError(
                f"{directory}: a run has it open\n  fix: wait for it; nothing was changed"
            )
        yield
