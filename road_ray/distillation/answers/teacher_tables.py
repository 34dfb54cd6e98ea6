"""Tables of one teacher.

A directory belongs to one combination of weights, configuration, tokenizer, task and label order.
It has a table for each set of rows that was labelled there. Answers are independent of weighting
rule, temperature and choice of teachers, so any number of runs read the same tables.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

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
from road_ray.distillation.answers.row_keys import Keys, Values
from road_ray.distillation.teacher_directory import ANSWERS_FOR, decisive_entries
from road_ray.errors import DataError
from road_ray.system.file_lock import lock_exclusively
from road_ray.system.json_file import write_json_atomic

_log = logging.getLogger(__name__)
MANIFEST = "manifest.json"
_LOCK = ".lock"
_TABLE_BYTES = 2**28  # of answers in memory, and ...
_TABLE_SECONDS = 300.0  # ... the time after which they become a table: the most that a kill loses
_POLL_SECONDS = 1.0


class TeacherTables:
    """Answers of one teacher."""

    def __init__(self, root: str | Path, teacher: Mapping[str, Any], task: Task) -> None:
        """Open the tables of ``teacher``, an entry of ``teacher_manifest``, if there are any."""
        self.kind: Kind = task.kind
        self.directory = Path(root).expanduser() / directory_name(teacher, task)
        self._record = _identity(teacher, task) | {"directory": teacher["directory"]}
        self.tables: list[AnswerTable] = []
        self._pending: list[tuple[Keys, Longs, Values]] = []
        self._pending_since = 0.0
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

    def holds(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which of the rows have an answer. ``[N, 2] -> [N]``."""
        found = [table.find(keys) >= 0 for table in self.tables]
        return np.logical_or.reduce(found) if found else np.zeros(len(keys), np.bool_)

    def read(self, keys: Keys) -> list[Values]:
        """Return the numbers of each row. Raises ``DataError`` for rows without an answer."""
        answers: list[Values | None] = [None] * len(keys)
        for table in self.tables:
            rows = table.find(keys)
            for number in np.flatnonzero(rows >= 0):
                answers[number] = table.read(int(rows[number]))
        if missing := sum(answer is None for answer in answers):
            raise DataError(
                f"{self.directory}: has no answers to {missing} of {len(keys)} rows of a batch\n"
                "  fix: run the command again, which asks for them; in a script, "
                "ensemble.label(batches) before the first epoch"
            )
        return cast("list[Values]", answers)

    @contextmanager
    def labelling(self) -> Iterator[None]:
        """Let this process alone add answers until it leaves the body; others wait. What it
        has added is kept, also if the body fails.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = (self.directory / _LOCK).open("a+", encoding="utf-8")
        except OSError as error:
            raise unwritable(self.directory, error) from error
        with lock:
            waited = False
            while holder := lock_exclusively(lock):
                if not waited:
                    _log.info("%s: waiting for %s, which labels rows", self.directory, holder)
                waited = True
                time.sleep(_POLL_SECONDS)
            if not (self.directory / MANIFEST).is_file():
                write_json_atomic(self.directory / MANIFEST, self._record)
            self.refresh()
            try:
                yield
            finally:
                self.flush()

    def add(self, keys: Keys, counts: Longs, values: Values) -> None:
        """Add answers to rows that have none: ``counts`` numbers of each row, concatenated. From
        time to time those in memory become a table.
        """
        if not self._pending:
            self._pending_since = time.monotonic()
        self._pending.append((keys, counts, values))
        size = sum(values.nbytes for _, _, values in self._pending)
        if size > _TABLE_BYTES or time.monotonic() - self._pending_since > _TABLE_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the answers in memory to a table."""
        pending, self._pending = self._pending, []
        if pending:
            keys, counts, values = map(np.concatenate, zip(*pending, strict=True))
            write_table(self.directory, keys, counts, values)
            self.refresh()


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
