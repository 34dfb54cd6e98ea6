"""Store of one teacher's raw logits on disk, keyed by the content of the row.

A directory belongs to one combination of weights, configuration, tokenizer, task and label order.
Any number of processes read and add at the same time: shards are immutable, a row may be stored
twice, and all processes read the older answer. The logits are independent of weighting rule,
temperature and choice of teachers.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import Longs
from road_ray.data.features.ragged import starts_of
from road_ray.data.task_and_dataset import Kind, Task
from road_ray.distillation.logit_store.logit_shards import (
    Shard,
    commit,
    quarantine,
    read_shard,
    remove_leftovers,
    shards_in,
    write_shard,
)
from road_ray.distillation.logit_store.row_keys import Keys, Rows, Values, counts_of, value_type
from road_ray.distillation.teacher_identity import ANSWERS_FOR, decisive_entries
from road_ray.errors import ResourceError
from road_ray.system.file_lock import lock_shared

_log = logging.getLogger(__name__)
FORMAT = 1
MANIFEST = "manifest.json"
LOCK = ".in-use"
_PENDING_BYTES = 32 * 2**20  # of answers in memory, the most that a kill loses
_PENDING_SECONDS = 60.0
_TICK_NS = 50_000_000
_WAITING, _NOWHERE = -1, -2  # instead of a shard's number: in memory, not stored


@dataclass(frozen=True)
class RowLocations:
    """Locations of answers to some rows: the number of a shard, ``_WAITING`` or ``_NOWHERE``."""

    shard: Longs
    start: Longs

    @property
    def is_stored(self) -> NDArray[np.bool_]:
        """Mask of the rows that are stored or waiting in memory."""
        stored: NDArray[np.bool_] = self.shard != _NOWHERE
        return stored

    @property
    def waits(self) -> bool:
        """True if an answer is still in memory."""
        return bool((self.shard == _WAITING).any())


class TeacherStore:
    """Stored answers of one teacher; ``close`` writes the last ones to disk."""

    def __init__(self, root: str | Path, teacher: Mapping[str, Any], task: Task) -> None:
        """Open the store of ``teacher``, an entry of ``teacher_manifest``."""
        self.kind: Kind = task.kind
        self.directory = Path(root).expanduser() / directory_name(teacher, task)
        self.writable = True
        self._shards: dict[str, Shard] = {}
        self._unreadable: set[str] = set()
        self._seen_ns = -1
        self._pending: dict[bytes, Values] = {}
        self._pending_bytes, self._pending_since = 0, 0.0
        self._index()
        self._lock = self._opened(_identity(teacher, task) | {"directory": teacher["directory"]})
        self.refresh()

    @property
    def num_rows(self) -> int:
        """Number of rows on disk and in memory; duplicates count twice."""
        return len(self._order) + len(self._pending)

    def find(self, keys: Keys) -> RowLocations:
        """Return the locations of the answers to these rows. ``[N, 2] -> [N]``. They stay valid,
        except for rows in memory.
        """
        if len(self._order):
            at = np.searchsorted(self._first, keys[:, 0]).clip(max=len(self._order) - 1)
            equal = (self._first[at] == keys[:, 0]) & (self._second[at] == keys[:, 1])
            rows = self._order[at]
            places = RowLocations(
                np.where(equal, self._shard_of[rows], _NOWHERE), self._starts[rows]
            )
        else:
            places = RowLocations(np.full(len(keys), _NOWHERE), np.zeros(len(keys), np.int64))
        for index in np.flatnonzero(~places.is_stored) if self._pending else ():
            if keys[index].tobytes() in self._pending:
                places.shard[index] = _WAITING
        return places

    def holds(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which of the rows are stored. ``[N, 2] -> [N]``."""
        return self.find(keys).is_stored

    def read(self, rows: Rows, places: RowLocations | None = None) -> list[Values]:
        """Return the numbers of each row. Raises ``KeyError`` if one is not stored."""
        places = self.find(rows.keys) if places is None else places
        counts = counts_of(self.kind, rows.lengths)
        slices = zip(places.shard.tolist(), places.start.tolist(), counts.tolist(), strict=True)
        return [
            self._pending[rows.keys[index].tobytes()]
            if shard < 0
            else self._values[shard][start : start + count]
            for index, (shard, start, count) in enumerate(slices)
        ]

    def add(self, rows: Rows, values: Values) -> None:
        """Add the answers to these rows, concatenated; an answer already in memory stays."""
        counts = counts_of(self.kind, rows.lengths)
        for index, start in enumerate(starts_of(counts)):
            key = rows.keys[index].tobytes()
            if key not in self._pending:
                answer = values[start : start + counts[index]]
                self._pending[key] = answer
                self._pending_bytes += answer.nbytes
        self._pending_since = self._pending_since or time.monotonic()

    def flush_if_due(self) -> None:
        """Flush if answers in memory exceed a size or an age."""
        waited = time.monotonic() - self._pending_since if self._pending else 0.0
        if self._pending_bytes > _PENDING_BYTES or waited > _PENDING_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the answers in memory to disk. If that fails they are dropped, with a warning: the
        store is a cache, and its failure does not stop a run.
        """
        if not self._pending:
            return
        keys = np.frombuffer(b"".join(self._pending), np.uint64).reshape(-1, 2)
        answers = list(self._pending.values())
        counts = np.array([len(answer) for answer in answers], np.int64)
        try:
            if self.writable:
                write_shard(self.directory, keys, counts, np.concatenate(answers))
        except OSError as error:
            self.writable = False
            _log.warning(
                "%s: cannot be written: %s; new answers are not stored from here on\n"
                "  fix: free space there, then start again\n  kept: all rows stored so far",
                self.directory,
                os.strerror(error.errno or errno.EIO),
            )
        self._pending.clear()
        self._pending_bytes, self._pending_since = 0, 0.0
        self._seen_ns = -1
        self.refresh()

    def refresh(self) -> bool:
        """Read shards that other processes have written; return True if there were any."""
        try:
            changed_ns = self.directory.stat().st_mtime_ns
            if changed_ns == self._seen_ns:
                return False
            known = {*self._shards, *self._unreadable}
            new = [path for path in shards_in(self.directory) if path.name not in known]
        except OSError as error:
            _log.warning("%s: cannot be read: %s", self.directory, error)
            return False
        for path in new:
            try:
                self._shards[path.name] = self._checked(path)
            except ValueError as error:
                quarantine(path, str(error))
            except FileNotFoundError:  # put aside by another process meanwhile
                continue
            except OSError as error:  # valid, perhaps, but not readable by this user
                self._unreadable.add(path.name)
                _log.warning("%s cannot be read (%s); its rows are computed again", path, error)
        # Two changes within one tick of the file system's clock have one time, so read again then.
        self._seen_ns = changed_ns if time.time_ns() - changed_ns > _TICK_NS else -1
        if new:
            self._index()
        return bool(new)

    def close(self) -> None:
        """Flush, and release the directory for merge and prune."""
        self.flush()
        self._lock.close()

    def _checked(self, path: Path) -> Shard:
        shard = read_shard(path)
        if shard.values.dtype != value_type(self.kind):
            raise ValueError(f"it holds {shard.values.dtype}")
        return shard

    def _index(self) -> None:
        """Build one sorted array of the keys of all shards; the oldest of equal keys comes first.
        The number of a shard does not change.
        """
        names = list(self._shards)
        self._values = [shard.values for shard in self._shards.values()]
        numbers = sorted(range(len(names)), key=lambda number: names[number])
        shards = [self._shards[names[number]] for number in numbers]
        keys = np.concatenate([np.zeros((0, 2), np.uint64), *(shard.keys for shard in shards)])
        self._order = np.argsort(keys[:, 0], kind="stable")
        self._first, self._second = keys[self._order, 0], keys[self._order, 1]
        self._shard_of = np.repeat(
            np.array(numbers, np.int64), np.array([len(shard.keys) for shard in shards], np.int64)
        )
        self._starts = np.concatenate([np.zeros(0, np.int64), *(shard.starts for shard in shards)])

    def _opened(self, manifest: dict[str, Any]) -> TextIO:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = (self.directory / LOCK).open("a", encoding="utf-8")
            lock_shared(lock)
            remove_leftovers(self.directory)
            if not (self.directory / MANIFEST).is_file():
                text = json.dumps(manifest | {"format": FORMAT}, indent=1) + "\n"
                commit(
                    self.directory, lambda path: path.write_text(text, "utf-8"), lambda _: MANIFEST
                )
            os.utime(self.directory / MANIFEST)  # when it was last used, for `prune`
        except OSError as error:
            raise ResourceError(
                f"distillation.store = {self.directory}: cannot be used: {error.strerror}: "
                f"{error.filename2 or error.filename}\n"
                "  fix: free space there, make it writable, or choose another place "
                "(null: no store)"
            ) from error
        return lock


def directory_name(teacher: Mapping[str, Any], task: Task) -> str:
    """Return the directory name: task, weights and a hash of all settings that affect answers."""
    content = json.dumps(_identity(teacher, task), sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()
    return f"{task.name}-{teacher['weights_sha256'][:12]}-{digest[:16]}"


def _identity(teacher: Mapping[str, object], task: Task) -> dict[str, Any]:
    entries = decisive_entries(teacher)
    if entries.pop(ANSWERS_FOR, None):  # answers to texts, in the teacher's own tokens
        entries["reads"] = "texts"
    return {"task": task.name, "kind": str(task.kind)} | entries


def expected_bytes(kind: Kind, lengths: Longs, num_teachers: int) -> int:
    """Return the estimated size of a store for rows of these lengths: logits, keys and bounds."""
    per_row = 16 + 8
    numbers = int(counts_of(kind, lengths).sum())
    return num_teachers * (numbers * np.dtype(value_type(kind)).itemsize + per_row * len(lengths))
