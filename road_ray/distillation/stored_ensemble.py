"""Answers that teachers give once: their tables, the labelling that fills them, and the ensemble
that reads them.

A directory of tables belongs to one combination of weights, configuration, tokenizer, task and
label order, with a table for each set of rows that was labelled there. Answers are independent of
weighting rule, temperature and choice of teachers, so any number of runs read the same tables.
Every run reads the stored numbers (classes and spans rounded to fp16), so a student does not depend
on how often it was resumed. For a teacher with another tokenizer a table has the answers in the
teacher's tokens, which are transferred to the student's tokens on each read.
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.examples import Longs
from road_ray.data.task_and_dataset import Kind, Span, Tag, Task
from road_ray.distillation.answer_table import (
    LOCK,
    MANIFEST,
    TABLES,
    AnswerTable,
    Keys,
    Values,
    keys_of_texts,
    keys_of_tokens,
    open_table,
    padded,
    unpadded,
    write_table,
)
from road_ray.distillation.cross_tokenizer import TextReader
from road_ray.distillation.ensemble import Ensemble, numbered, submitted
from road_ray.distillation.teacher import OWN_TOKENS, inputs_of, some_rows
from road_ray.distillation.teacher_directory import ANSWERS_FOR, decisive_entries
from road_ray.errors import CheckpointError, DataError, ResourceError
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
        """Open the tables of ``teacher``, a ``teacher_entry``, if there are any."""
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
        known = {table.path for table in self.tables}
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
            raise ResourceError(
                f"{self.directory}: answers of a teacher cannot be written: {error.strerror}\n"
                "  fix: make it writable, or choose another directory: "
                "distillation.store=DIRECTORY\n  kept: the answers so far"
            ) from error
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

    def add(self, keys: Keys, answers: Sequence[Values]) -> None:
        """Add the numbers of answers to rows that have none. From time to time those in memory
        become a table.
        """
        if not self._pending:
            self._pending_since = time.monotonic()
        counts = np.array(list(map(len, answers)), np.int64)
        self._pending.append((keys, counts, np.concatenate(answers)))
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


class StoredEnsemble(Ensemble):
    """Ensemble with the tables of each teacher. ``label`` fills them; an answer that is asked for
    must be there.
    """

    def __init__(self, root: str | Path, teachers: Sequence[Mapping[str, Any]], task: Task) -> None:
        """Open the tables below ``root`` of ``teachers``, each a ``teacher_entry``."""
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
            positions, width = _positions(reader, tables.kind, handle)
            numbers = tables.read(_keys(reader, handle))
            answer = padded(numbers, positions, width, tables.kind)
            if reader is not None:
                tokens = reader.rows(handle["texts"])
                answer, figures[number] = reader.carried(tokens, answer, handle)
            answers.append(answer)
        self.stats = numbered(figures)
        return torch.stack(answers)

    def label(self, batches: Batches, live: Live) -> int:
        """Have the teachers answer every row of ``batches`` that has no answer, and return how many
        rows that were. Another process that labels for these teachers is waited for.

        What was answered before an interruption is not asked again.
        """
        found = [
            [_keys(reader, inputs) for reader in self._readers]
            for inputs in map(inputs_of, batches())
        ]
        keys = [np.concatenate(of_teacher) for of_teacher in zip(*found, strict=True)]
        lacking = [n for n, own in enumerate(keys) if not self.tables[n].holds(own).all()]
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
            wanted = np.logical_or.reduce([*missing.values()])
            asked = self._asked(batches(), wanted)
            for inputs, handle in submitted(asked, ensemble, _AHEAD):
                for n, answers in zip(missing, ensemble.gather(handle), strict=True):
                    rows = inputs["rows"]
                    some = np.flatnonzero(missing[n][rows])
                    if len(some):
                        self._keep(n, keys[n][rows[some]], some_rows(inputs, some), answers[some])
        return int(wanted.sum())

    def _asked(
        self, batches: Iterable[Mapping[str, Any]], wanted: NDArray[np.bool_]
    ) -> Iterator[dict[str, Any]]:
        """Yield the inputs of the rows that are ``wanted``, with their numbers as ``rows``."""
        begin = 0
        for batch in batches:
            inputs = inputs_of(batch)
            rows = np.arange(begin, begin + len(inputs["input_ids"]))
            begin += len(rows)
            some = np.flatnonzero(wanted[rows])
            if len(some):
                inputs = {**some_rows(inputs, some), "rows": rows[some]}
                if any(self._readers):
                    inputs[OWN_TOKENS] = torch.ones(len(some), dtype=torch.bool)
                yield inputs

    def _keep(self, number: int, keys: Keys, inputs: Mapping[str, Any], answers: Tensor) -> None:
        """Add the answers of a teacher to the rows of these inputs to its tables."""
        tables = self.tables[number]
        positions, _ = _positions(self._readers[number], tables.kind, inputs)
        every = [None] * len(keys) if positions is None else positions
        try:
            values = list(map(partial(unpadded, kind=tables.kind), answers, every))
        except CheckpointError as error:
            raise CheckpointError(f"teacher {number}: {error}") from error
        tables.add(keys, values)


def _keys(reader: TextReader | None, inputs: Mapping[str, Any]) -> Keys:
    """Return the keys of the rows of a batch as one teacher has them."""
    if reader is None:
        return keys_of_tokens(inputs)
    return keys_of_texts(reader.needed(inputs, "texts"))


def _positions(
    reader: TextReader | None, kind: Kind, inputs: Mapping[str, Any]
) -> tuple[list[Longs] | None, int]:
    """Return the real positions of each row of a batch, as the answer of one teacher has them, and
    its width; None if it has none. A teacher that reads texts has its own tokens, too.
    """
    if not isinstance(kind, Span | Tag):
        return None, 0
    if reader is None:
        mask = inputs.get("attention_mask")
        mask = torch.ones_like(inputs["input_ids"]) if mask is None else mask
        return [np.flatnonzero(row) for row in mask.cpu().numpy()], mask.shape[-1]
    tokens = reader.rows(reader.needed(inputs, "texts"))
    lengths = [sum(len(row.tokens) for row in example) for example in tokens]
    return [np.arange(length) for length in lengths], max(lengths, default=0)
