"""Tables of one teacher, and the builder of the next one.

A directory belongs to one combination of weights, configuration, tokenizer, task and label order.
It has a table for each set of rows that was labelled there. Answers are independent of weighting
rule, temperature and choice of teachers, so any number of runs read the same tables.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import Longs
from road_ray.data.task_and_dataset import Kind, Task
from road_ray.distillation.answers.answer_table import (
    TABLES,
    AnswerTable,
    open_table,
    unwritable,
    write_table,
)
from road_ray.distillation.answers.row_keys import Keys, Values, value_type
from road_ray.distillation.teacher_identity import ANSWERS_FOR, decisive_entries
from road_ray.system.file_lock import lock_exclusively
from road_ray.system.json_file import write_json_atomic

_log = logging.getLogger(__name__)
MANIFEST = "manifest.json"
_BLOCKS = ".labelling"  # directory of the answers to rows that will be a table
_LOCK = ".lock"
_BLOCK_BYTES = 32 * 2**20  # of answers in memory, the most that a kill loses
_BLOCK_SECONDS = 60.0
_POLL_SECONDS = 1.0


class Places(NamedTuple):
    """Places of the answers to some rows, ``[N]`` each: the number of the table, -1 for none, and
    of the row in it.
    """

    table: Longs
    row: Longs

    @property
    def is_stored(self) -> NDArray[np.bool_]:
        """Mask of the rows that have an answer."""
        return self.table >= 0


class TeacherTables:
    """Answers of one teacher."""

    def __init__(self, root: str | Path, teacher: Mapping[str, Any], task: Task) -> None:
        """Open the tables of ``teacher``, an entry of ``teacher_manifest``, if there are any."""
        self.kind: Kind = task.kind
        self.directory = Path(root).expanduser() / directory_name(teacher, task)
        self._record = _identity(teacher, task) | {"directory": teacher["directory"]}
        self.tables: list[AnswerTable] = []
        self.refresh()

    def __len__(self) -> int:
        return sum(map(len, self.tables))

    def refresh(self) -> None:
        """Open the tables that other processes have written. Raises ``DataError`` for a damaged
        one.
        """
        known = {table.directory for table in self.tables}
        new = [path for path in sorted(self.directory.glob(TABLES)) if path not in known]
        self.tables += [open_table(path) for path in new]
        with suppress(OSError):  # when it was last used, for `prune`; others may only read it
            os.utime(self.directory / MANIFEST)

    def find(self, keys: Keys) -> Places:
        """Return the places of the answers to these rows. ``[N, 2] -> [N]``."""
        table = np.full(len(keys), -1)
        row = np.zeros(len(keys), np.int64)
        for number, candidate in enumerate(self.tables):
            found = candidate.find(keys)
            table[found >= 0] = number
            row[found >= 0] = found[found >= 0]
        return Places(table, row)

    def holds(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which of the rows have an answer. ``[N, 2] -> [N]``."""
        return self.find(keys).is_stored

    def read(self, places: Places) -> list[Values]:
        """Return the numbers of each row, which must have an answer."""
        pairs = zip(places.table.tolist(), places.row.tolist(), strict=True)
        return [self.tables[table].read(row) for table, row in pairs]

    @contextmanager
    def builder(self) -> Iterator[TableBuilder]:
        """Yield the builder of a further table. One process at a time has it, others wait."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = (self.directory / _LOCK).open("a+", encoding="utf-8")
            self._wait_for(lock)
        except OSError as error:
            raise unwritable(self.directory, error) from error
        with lock:
            if not (self.directory / MANIFEST).is_file():
                write_json_atomic(self.directory / MANIFEST, self._record)
            self.refresh()
            yield TableBuilder(self)

    def _wait_for(self, lock: TextIO) -> None:
        """Lock the directory, once no other process has it."""
        waited = False
        while holder := lock_exclusively(lock):
            if not waited:
                _log.info("%s: waiting for %s, which labels rows", self.directory, holder)
            waited = True
            time.sleep(_POLL_SECONDS)


class TableBuilder:
    """Writes answers block by block, and in the end the table of them. What an interrupted run has
    written is kept.
    """

    def __init__(self, tables: TeacherTables) -> None:
        self._tables = tables
        self._dtype = value_type(tables.kind)
        self._place = tables.directory / _BLOCKS
        self._blocks: list[tuple[Path, Keys, Longs]] = []
        for path in sorted(self._place.glob("*.npz")):
            try:
                with np.load(path) as block:
                    self._blocks.append((path, block["keys"], block["counts"]))
            except (OSError, ValueError, KeyError, BadZipFile):
                _log.warning("%s is damaged; its rows are asked again", path)
                path.unlink(missing_ok=True)
        self._known = None
        if self._blocks:
            keys = np.concatenate([keys for _, keys, _ in self._blocks])
            halves = keys[np.lexsort((keys[:, 1], keys[:, 0]))].T.copy()
            self._known = AnswerTable(self._place, halves, np.empty(0), None)
        self._begin_block()

    def lacks(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which of these distinct rows have no answer yet. ``[N, 2] -> [N]``."""
        missing = ~self._tables.holds(keys)
        return missing if self._known is None else missing & (self._known.find(keys) < 0)

    def add(self, keys: Keys, counts: Longs, values: Values) -> None:
        """Add answers to rows that it lacks: ``counts`` numbers of each row, concatenated."""
        self._pending.append((keys, counts, values))
        self._pending_bytes += values.nbytes
        if (
            self._pending_bytes > _BLOCK_BYTES
            or time.monotonic() - self._block_began > _BLOCK_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        """Write the answers in memory to a block."""
        if not self._pending:
            return
        keys, counts, values = (
            np.concatenate(arrays) for arrays in zip(*self._pending, strict=True)
        )
        path = self._place / f"{uuid.uuid4().hex}.npz"
        staged = path.with_suffix(".tmp")
        try:
            self._place.mkdir(exist_ok=True)
            with staged.open("wb") as file:
                np.savez(file, keys=keys, counts=counts, values=values.astype(self._dtype))
                file.flush()
                os.fsync(file.fileno())
            staged.replace(path)
        except OSError as error:
            staged.unlink(missing_ok=True)
            raise unwritable(self._place, error) from error
        self._blocks.append((path, keys, counts))
        self._begin_block()

    def finish(self) -> None:
        """Write the table of all blocks and open it."""
        self.flush()
        if self._blocks:
            keys = np.concatenate([keys for _, keys, _ in self._blocks])
            counts = np.concatenate([counts for _, _, counts in self._blocks])
            parts = (np.load(path)["values"] for path, _, _ in self._blocks)
            write_table(self._tables.directory, self._dtype, keys, counts, parts)
            shutil.rmtree(self._place)
        self._tables.refresh()

    def _begin_block(self) -> None:
        self._pending: list[tuple[Keys, Longs, Values]] = []
        self._pending_bytes, self._block_began = 0, time.monotonic()


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
