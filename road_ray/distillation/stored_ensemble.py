"""Answers that teachers give once: their tables, the labelling that fills them, and the ensemble
that reads them.

A directory of tables belongs to one combination of weights, configuration, tokenizer, task and
label order, with a table for each set of rows that was labelled there. Answers are independent of
weighting rule, temperature and choice of teachers, so any number of runs read the same tables.
Every run reads the stored numbers (classes and spans rounded to fp16), so a student does not depend
on how often it was resumed. For a teacher with another tokenizer a table has the answers in the
teacher's tokens, which are transferred to the student's tokens on each read.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from road_ray.data.examples import Longs
from road_ray.data.task_and_dataset import Kind, Span, Tag, Task
from road_ray.distillation.answer_table import (
    LOCK,
    MANIFEST,
    TABLES,
    AnswerTable,
    Keys,
    Rows,
    Values,
    counts_of,
    keys_of_texts,
    open_table,
    padded,
    rows_of,
    unpadded,
    unwritable,
    write_table,
)
from road_ray.distillation.cross_tokenizer import PAD_LOGIT, TextReader, TokenRow
from road_ray.distillation.ensemble import Ensemble, numbered
from road_ray.distillation.teacher import OWN_TOKENS, inputs_of, some_rows
from road_ray.distillation.teacher_directory import ANSWERS_FOR, decisive_entries
from road_ray.errors import CheckpointError, DataError
from road_ray.system.files import write_json_atomic
from road_ray.system.operating_system import lock_exclusively

_log = logging.getLogger(__name__)
_TABLE_BYTES = 2**28  # of answers in memory, and ...
_TABLE_SECONDS = 300.0  # ... the time after which they become a table: the most that a kill loses
_POLL_SECONDS = 1.0
_AHEAD = 4  # batches that are sent to the teachers before the answers of the first are read
Members = tuple[int, ...]
Live = Callable[[Members], AbstractContextManager[Ensemble]]
"""Starts the teachers of these numbers until it is left; they answer in this order."""
Batches = Callable[[], Iterable[Mapping[str, Any]]]
"""Returns the batches to label, the same at each call."""


class TeacherTables:
    """Answers of one teacher."""

    def __init__(self, root: str | Path, teacher: Mapping[str, Any], task: Task) -> None:
        """Open the tables of ``teacher``, an entry of ``teacher_manifest``, if there are any."""
        self.kind: Kind = task.kind
        self.directory = Path(root).expanduser() / directory_name(teacher, task)
        self._record = _identity(teacher, task) | {
            "directory": teacher.get("adapter", teacher["directory"])
        }
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
            lock = (self.directory / LOCK).open("a+", encoding="utf-8")
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
    content_sha256 = teacher.get("weights_sha256") or teacher["file_sha256"]
    return f"{task.name}-{content_sha256[:12]}-{digest[:16]}"


def _identity(teacher: Mapping[str, object], task: Task) -> dict[str, Any]:
    entries = decisive_entries(teacher)
    if entries.pop(ANSWERS_FOR, None):  # answers to texts, in the teacher's own tokens
        entries["reads"] = "texts"
    return {"task": task.name, "kind": str(task.kind)} | entries


class StoredEnsemble(Ensemble):
    """Ensemble with the tables of each teacher. ``label`` fills them; an answer that is asked for
    must be there.
    """

    def __init__(self, root: str | Path, teachers: Sequence[Mapping[str, Any]], task: Task) -> None:
        """Open the tables below ``root`` of ``teachers``, entries of a ``teacher_manifest``."""
        self.tables = [TeacherTables(root, teacher, task) for teacher in teachers]
        self._readers = [
            TextReader(teacher["directory"], task) if ANSWERS_FOR in teacher else None
            for teacher in teachers
        ]
        self.size = len(self.tables)

    def gather(self, handle: Mapping[str, Any]) -> Tensor:
        """Return the stored logits. ``-> [M, B, ..., C]``, fp32; span padding is ``PAD_LOGIT``.
        Raises ``DataError`` for a row that a teacher was not asked.
        """
        answers: list[Tensor] = []
        figures: dict[int, Mapping[str, float]] = {}
        for number, (tables, reader) in enumerate(zip(self.tables, self._readers, strict=True)):
            rows, tokens = _stored_rows(reader, handle)
            answer = padded(tables.read(rows.keys), rows, tables.kind)
            if reader is not None and tokens is not None:
                answer, figures[number] = reader.carried(tokens, answer, handle)
            answers.append(answer)
        self.stats = numbered(figures)
        return torch.stack(answers)

    def label(self, batches: Batches, live: Live) -> int:
        """Have the teachers answer every row of ``batches`` that has no answer, and return how many
        rows that were. Another process that labels for these teachers is waited for.

        What was answered before an interruption is not asked again.
        """
        found: list[list[Keys]] = [[] for _ in self.tables]
        for batch in batches():
            inputs = inputs_of(batch)
            for own, reader in zip(found, self._readers, strict=True):
                texts = None if reader is None else reader.needed(inputs, "texts")
                own.append(rows_of(inputs).keys if texts is None else keys_of_texts(texts))
        keys = [np.concatenate(own) for own in found]
        lacking = [n for n, tables in enumerate(self.tables) if not tables.holds(keys[n]).all()]
        with ExitStack() as stack:
            for tables in sorted((self.tables[n] for n in lacking), key=lambda t: t.directory):
                stack.enter_context(tables.labelling())
            missing = {}
            for n in lacking:  # of equal rows the first is asked
                mask = np.zeros(len(keys[n]), np.bool_)
                mask[np.unique(keys[n], axis=0, return_index=True)[1]] = True
                mask &= ~self.tables[n].holds(keys[n])
                if mask.any():
                    missing[n] = mask
            if not missing:
                return 0
            ensemble = stack.enter_context(live(tuple(missing)))
            waiting: deque[tuple[Longs, Mapping[str, Any], Any]] = deque()
            wanted, begin = np.logical_or.reduce([*missing.values()]), 0
            for batch in batches():
                inputs = inputs_of(batch)
                numbers = np.arange(begin, begin + len(inputs["input_ids"]))
                begin += len(numbers)
                if not wanted[numbers].any():
                    continue
                inputs = some_rows(inputs, np.flatnonzero(wanted[numbers]))
                numbers = numbers[wanted[numbers]]
                if any(self._readers):
                    inputs[OWN_TOKENS] = torch.ones(len(numbers), dtype=torch.bool)
                waiting.append((numbers, inputs, ensemble.submit(inputs)))
                if len(waiting) > _AHEAD:
                    self._keep(missing, ensemble, *waiting.popleft())
            while waiting:
                self._keep(missing, ensemble, *waiting.popleft())
        return int(wanted.sum())

    def _keep(
        self,
        missing: Mapping[int, NDArray[np.bool_]],
        ensemble: Ensemble,
        numbers: Longs,
        inputs: Mapping[str, Any],
        handle: object,
    ) -> None:
        """Add the answers to the rows of these numbers to the tables of the teachers that miss
        them.
        """
        for number, answers in zip(missing, ensemble.gather(handle), strict=True):
            chosen = np.flatnonzero(missing[number][numbers])
            if not len(chosen):
                continue
            kind = self.tables[number].kind
            rows, _ = _stored_rows(self._readers[number], some_rows(inputs, chosen))
            kept = answers[torch.from_numpy(chosen).to(answers.device)]
            if isinstance(kind, Span | Tag):
                # Teachers of several tokenizers answer together, each in the width of its longest
                # row.
                axis, width = (-1 if isinstance(kind, Span) else 1), rows.real.shape[-1]
                beyond = max(0, width - kept.shape[axis])
                sizes = (0, beyond) if axis == -1 else (0, 0, 0, beyond)
                kept = pad(kept, sizes, value=PAD_LOGIT).narrow(axis, 0, width)
            try:
                values = unpadded(kept, rows, kind)
            except CheckpointError as error:
                raise CheckpointError(f"teacher {number}: {error}") from error
            self.tables[number].add(rows.keys, counts_of(kind, rows.lengths), values)


def _stored_rows(
    reader: TextReader | None, inputs: Mapping[str, Any]
) -> tuple[Rows, list[list[TokenRow]] | None]:
    """Return the rows of a batch as one teacher has them, and its own tokens if it reads texts and
    answers per token.
    """
    if reader is None:
        return rows_of(inputs), None
    texts = reader.needed(inputs, "texts")
    keys = keys_of_texts(texts)
    if not isinstance(reader.task.kind, Span | Tag):
        return Rows(keys, np.ones((len(keys), 1), np.bool_)), None
    tokens = reader.rows(texts)
    lengths = np.array([sum(len(row.tokens) for row in example) for example in tokens], np.int64)
    return Rows(keys, np.arange(int(lengths.max(initial=0))) < lengths[:, None]), tokens
