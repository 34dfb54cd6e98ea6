"""Maintenance of teachers' answers: list, verify and prune their tables.

Tables do not change, so neither needs a lock: a run that has a removed table open keeps it until it
ends.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from road_ray.distillation.answers.answer_table import TABLES, open_table
from road_ray.distillation.answers.teacher_tables import MANIFEST
from road_ray.errors import ConfigError, DataError
from road_ray.system.json_file import read_json

_SECONDS_A_DAY = 86400.0


@dataclass(frozen=True)
class StoredTeacher:
    """One teacher's directory of tables."""

    directory: Path
    manifest: dict[str, Any]
    tables: list[Path]
    num_bytes: int
    unused_days: float

    @property
    def num_rows(self) -> int:
        """Number of rows in all tables. Raises ``DataError`` for a damaged one."""
        return sum(len(open_table(path, check=False)) for path in self.tables)


def list_teachers(root: str | Path, names: Sequence[str] = ()) -> list[StoredTeacher]:
    """Return the teachers with tables below ``root``, by name; those whose names start with one of
    ``names``, if there are any. Raises ``ConfigError`` if there are none.
    """
    root = Path(root).expanduser()
    found = {path.parent.name: path for path in sorted(root.glob(f"[!.]*/{MANIFEST}"))}
    if not found:
        raise ConfigError(
            f"{root}: no answers of teachers here\n"
            "  allowed: the value of distillation.store of a run, or answers/ in its directory"
        )
    for name in names:
        if not any(known.startswith(name) for known in found):
            raise ConfigError(
                f"{name}: no teacher of this directory\n  allowed: {', '.join(found)}"
            )
    chosen = tuple(names) or ("",)
    return [_stored(path) for name, path in found.items() if name.startswith(chosen)]


def find_damage(teacher: StoredTeacher) -> list[str]:
    """Return the problem of each damaged table."""
    problems = []
    for path in teacher.tables:
        try:
            open_table(path, check=True)
        except (DataError, OSError, ValueError) as error:
            problems.append(f"{path.name}: {error}")
    return problems


def _stored(manifest: Path) -> StoredTeacher:
    directory = manifest.parent
    return StoredTeacher(
        directory=directory,
        manifest=read_json(
            manifest, error=DataError, fix="delete its directory; the next run makes it again"
        ),
        tables=sorted(directory.glob(TABLES)),
        num_bytes=sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()),
        unused_days=(time.time() - manifest.stat().st_mtime) / _SECONDS_A_DAY,
    )
