"""What one teacher has said, kept on disk: raw logits by the content of the row.

A directory of the store belongs to one teacher's very weights, configuration, tokenizer, task and
label order; replace any of them and it is another directory. Any number of processes read and add
at once: shards are immutable, a row that two of them add is merely there twice, and the older
answer is the one that all read. Weights, temperature, rule and subset of teachers come after it.
"""

from __future__ import annotations

import errno
import fcntl
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

from road_ray.data.features.ragged import starts_of
from road_ray.data.features.types import Longs
from road_ray.data.schema import Kind, Task
from road_ray.distillation.store.rows import Keys, Rows, Values, counts_of, value_type
from road_ray.distillation.store.shards import (
    Shard,
    commit,
    quarantine,
    read_shard,
    remove_leftovers,
    shards_in,
    write_shard,
)
from road_ray.distillation.teacher_identity import DECISIVE
from road_ray.errors import ResourceError

_log = logging.getLogger(__name__)
FORMAT = 1
MANIFEST = "manifest.json"
LOCK = ".in-use"
_PENDING_BYTES = 32 * 2**20  # of answers not yet on disk; a kill costs at most these
_PENDING_SECONDS = 60.0
_TICK_NS = 50_000_000
_WAITING, _NOWHERE = -1, -2  # in place of a shard's number


@dataclass(frozen=True)
class RowLocations:
    """Where the answers to some rows are: the number of a shard, or ``_WAITING``, or
    ``_NOWHERE``.
    """

    shard: Longs
    start: Longs

    @property
    def found(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.shard != _NOWHERE
        return found

    @property
    def waits(self) -> bool:
        """Whether one of the rows may yet move to the disk."""
        return bool((self.shard == _WAITING).any())


class TeacherStore:
    """The stored answers of one teacher; close it, so that the last ones reach the disk."""

    def __init__(self, root: str | Path, teacher: Mapping[str, Any], task: Task) -> None:
        """``teacher``: an entry of ``identity.teacher_manifest``."""
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
        """Rows on disk and waiting for it; a row that is there twice counts twice."""
        return len(self._order) + len(self._pending)

    def find(self, keys: Keys) -> RowLocations:
        """Where the answers to these rows are. ``[N, 2] -> [N]``; it stays true for ever, except
        for rows that wait for the disk.
        """
        if len(self._order):
            at = np.searchsorted(self._first, keys[:, 0]).clip(max=len(self._order) - 1)
            found = (self._first[at] == keys[:, 0]) & (self._second[at] == keys[:, 1])
            rows = self._order[at]
            places = RowLocations(
                np.where(found, self._shard_of[rows], _NOWHERE), self._starts[rows]
            )
        else:
            places = RowLocations(np.full(len(keys), _NOWHERE), np.zeros(len(keys), np.int64))
        for index in np.flatnonzero(~places.found) if self._pending else ():
            if keys[index].tobytes() in self._pending:
                places.shard[index] = _WAITING
        return places

    def holds(self, keys: Keys) -> NDArray[np.bool_]:
        """Which of the rows are there. ``[N, 2] -> [N]``."""
        return self.find(keys).found

    def read(self, rows: Rows, places: RowLocations | None = None) -> list[Values]:
        """The numbers of each row. Raises ``KeyError`` when one is not there."""
        places = self.find(rows.keys) if places is None else places
        counts = counts_of(self.kind, rows.lengths)
        found = zip(places.shard.tolist(), places.start.tolist(), counts.tolist(), strict=True)
        return [
            self._pending[rows.keys[index].tobytes()]
            if shard < 0
            else self._values[shard][start : start + count]
            for index, (shard, start, count) in enumerate(found)
        ]

    def add(self, rows: Rows, values: Values) -> None:
        """Keep the answers to these rows, all numbers end to end; one that waits already stays."""
        counts = counts_of(self.kind, rows.lengths)
        for index, start in enumerate(starts_of(counts)):
            key = rows.keys[index].tobytes()
            if key not in self._pending:
                answer = values[start : start + counts[index]]
                self._pending[key] = answer
                self._pending_bytes += answer.nbytes
        self._pending_since = self._pending_since or time.monotonic()

    def flush_if_due(self) -> None:
        """Bounds what waits in memory, by size and by time."""
        waited = time.monotonic() - self._pending_since if self._pending else 0.0
        if self._pending_bytes > _PENDING_BYTES or waited > _PENDING_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Everything that waits is on the disk, or forgotten where there is no room for it: the
        store is a convenience, and a run does not end for it.
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
                "%s: cannot be written: %s; from here on new answers are not kept\n"
                "  fix: free space there, then start again\n  kept: all rows stored so far",
                self.directory,
                os.strerror(error.errno or errno.EIO),
            )
        self._pending.clear()
        self._pending_bytes, self._pending_since = 0, 0.0
        self._seen_ns = -1
        self.refresh()

    def refresh(self) -> bool:
        """Take in what others have written; True when there was something new."""
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
            except OSError as error:  # whole, perhaps, but not for this user
                self._unreadable.add(path.name)
                _log.warning("%s cannot be read (%s); its rows are asked for again", path, error)
        # Two changes within one tick of the file system's clock look like one: look again then.
        self._seen_ns = changed_ns if time.time_ns() - changed_ns > _TICK_NS else -1
        if new:
            self._index()
        return bool(new)

    def close(self) -> None:
        """Flush, and let others merge or prune the directory."""
        self.flush()
        self._lock.close()

    def _checked(self, path: Path) -> Shard:
        shard = read_shard(path)
        if shard.values.dtype != value_type(self.kind):
            raise ValueError(f"it holds {shard.values.dtype}")
        return shard

    def _index(self) -> None:
        """All keys of all shards in one sorted array; of equal ones the oldest shard's first. A
        shard keeps the number under which it came in.
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
            fcntl.flock(lock, fcntl.LOCK_SH)
            remove_leftovers(self.directory)
            if not (self.directory / MANIFEST).is_file():
                text = json.dumps(manifest | {"format": FORMAT}, indent=1) + "\n"
                commit(self.directory, lambda path: path.write_text(text, "utf-8"), _manifest_name)
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
    """Task, weights and a hash over all that decides the answers."""
    content = json.dumps(_identity(teacher, task), sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()
    return f"{task.name}-{teacher['weights_sha256'][:12]}-{digest[:16]}"


def _identity(teacher: Mapping[str, Any], task: Task) -> dict[str, Any]:
    decides = {name: teacher[name] for name in DECISIVE}
    return {"task": task.name, "kind": str(task.kind)} | decides


def _manifest_name(_: str) -> str:
    return MANIFEST


def expected_bytes(kind: Kind, lengths: Longs, num_teachers: int) -> int:
    """What the store will take for rows of these lengths, for plans: logits, keys and bounds."""
    per_row = 16 + 8
    numbers = int(counts_of(kind, lengths).sum())
    return num_teachers * (numbers * np.dtype(value_type(kind)).itemsize + per_row * len(lengths))
