"""Ensemble that reads the answers of its teachers from tables, and the labelling that fills them.

Every run reads the stored numbers (classes and spans rounded to fp16), so a student does not depend
on how often it was resumed. For a teacher with another tokenizer a table has the answers in the
teacher's tokens, which are transferred to the student's tokens on each read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.features.examples_and_features import Longs
from road_ray.data.task_and_dataset import Kind, Span, Tag, Task
from road_ray.distillation.answers.row_keys import (
    Keys,
    RowKeys,
    Rows,
    counts_of,
    keys_of_texts,
    padded,
    rows_of,
    unpadded,
)
from road_ray.distillation.answers.teacher_tables import Places, TeacherTables
from road_ray.distillation.ensemble.cross_tokenizer.text_reader import TextReader, TokenRow
from road_ray.distillation.ensemble.protocol import OWN_TOKENS, PAD_LOGIT, Ensemble, numbered
from road_ray.distillation.ensemble.teacher import inputs_of, some_rows
from road_ray.distillation.teacher_identity import ANSWERS_FOR
from road_ray.errors import CheckpointError, DataError

_AHEAD = 4  # batches that are sent to the teachers before the answers of the first are read

Members = tuple[int, ...]
Live = Callable[[Members], AbstractContextManager[Ensemble]]
"""Starts the teachers of these numbers until it is left; they answer in this order."""
MakeBatch = Callable[[Longs], Mapping[str, Any]]
"""Returns the inputs of rows by their numbers."""


@dataclass(frozen=True)
class StoredRows:
    """Rows of a batch as one teacher has them; ``tokens`` are the teacher's own, if it reads texts
    and answers per token.
    """

    rows: Rows
    tokens: list[list[TokenRow]] | None = None


@dataclass(frozen=True)
class Request:
    """A batch, with its rows and the places of their answers by teacher."""

    inputs: Mapping[str, Any]
    rows: list[StoredRows]
    places: list[Places]


class StoredEnsemble(Ensemble):
    """Ensemble with the tables of each teacher. ``label`` fills them; an answer that is asked for
    must be there.
    """

    def __init__(
        self, tables: Sequence[TeacherTables], readers: Sequence[TextReader | None] | None = None
    ) -> None:
        self.tables = tuple(tables)
        self._readers = tuple(readers or [None] * len(tables))
        self._stats: Mapping[str, float] = {}

    @classmethod
    def open(cls, root: str | Path, manifest: Mapping[str, Any], task: Task) -> StoredEnsemble:
        """Open the tables below ``root`` of the teachers of a ``teacher_manifest``."""
        tables = [TeacherTables(root, teacher, task) for teacher in manifest["teachers"]]
        readers = [
            TextReader.of(teacher["directory"], task) if ANSWERS_FOR in teacher else None
            for teacher in manifest["teachers"]
        ]
        return cls(tables, readers)

    @property
    def size(self) -> int:
        return len(self.tables)

    @property
    def stats(self) -> Mapping[str, float]:
        """Figures of the last answers that were transferred to the student's tokens."""
        return self._stats

    def submit(self, batch: Mapping[str, object]) -> Request:
        """Look the rows up. Raises ``DataError`` for a row that a teacher was not asked."""
        inputs = inputs_of(batch)
        rows = [_stored_rows(reader, inputs) for reader in self._readers]
        pairs = zip(self.tables, rows, strict=True)
        places = [tables.find(stored.rows.keys) for tables, stored in pairs]
        for number, found in enumerate(places):
            if missing := int((~found.is_stored).sum()):
                raise DataError(
                    f"{self.tables[number].directory}: has no answers of teacher {number} to "
                    f"{missing} of {len(found.table)} rows of a batch\n"
                    "  fix: run the command again, which asks for them; in a script, "
                    "ensemble.label(batches) before the first epoch"
                )
        return Request(inputs, rows, places)

    def gather(self, handle: Request) -> Tensor:
        """Return the stored logits. ``-> [M, B, ..., C]``, fp32; span padding is ``PAD_LOGIT``."""
        answers: list[Tensor] = []
        figures: dict[int, Mapping[str, float]] = {}
        for number, (tables, reader) in enumerate(zip(self.tables, self._readers, strict=True)):
            stored = handle.rows[number]
            answer = padded(tables.read(handle.places[number]), stored.rows, tables.kind)
            if reader is not None and stored.tokens is not None:
                answer, figures[number] = reader.carried(stored.tokens, answer, handle.inputs)
            answers.append(answer)
        self._stats = numbered(figures)
        return torch.stack(answers)

    def holds(self, keys: RowKeys) -> NDArray[np.bool_]:
        """Return which rows have the answers of every teacher. ``[N] -> [N]``."""
        held = [tables.holds(self._keys(n, keys)) for n, tables in enumerate(self.tables)]
        everywhere: NDArray[np.bool_] = np.logical_and.reduce(held)
        return everywhere

    def label(
        self, keys: RowKeys, groups: Iterable[Longs], make_batch: MakeBatch, live: Live
    ) -> int:
        """Have the teachers answer every row that has no answer, into one further table of each
        teacher, and return how many rows that were. ``groups`` are the numbers of the rows, as many
        as are sent together. Another process that labels the same rows is waited for.

        What was answered before an interruption is not asked again.
        """
        own_keys = [self._keys(number, keys) for number in range(self.size)]
        lacking = [n for n, t in enumerate(self.tables) if not t.holds(own_keys[n]).all()]
        wanted = np.zeros(len(keys.tokens), np.bool_)
        with ExitStack() as stack:
            for tables in sorted((self.tables[n] for n in lacking), key=lambda t: t.directory):
                stack.enter_context(tables.labelling())
            masks = {n: _first_missing(self.tables[n], own_keys[n]) for n in lacking}
            missing = {number: mask for number, mask in masks.items() if mask.any()}
            for mask in missing.values():
                wanted |= mask
            if missing:
                ensemble = stack.enter_context(live(tuple(missing)))
                parts = (numbers[wanted[numbers]] for numbers in groups)
                asked = self._asked(ensemble, filter(len, parts), make_batch)
                for numbers, inputs, answers in asked:
                    for number, answer in zip(missing, answers, strict=True):
                        chosen = np.flatnonzero(missing[number][numbers])
                        rows = own_keys[number][numbers[chosen]]
                        self._add(number, rows, chosen, answer, inputs)
        return int(wanted.sum())

    def _asked(
        self, ensemble: Ensemble, groups: Iterable[Longs], make_batch: MakeBatch
    ) -> Iterator[tuple[Longs, Mapping[str, Any], Tensor]]:
        """Yield the numbers, inputs and answers of each group, in order; some are sent ahead."""
        waiting: deque[tuple[Longs, Mapping[str, Any], Any]] = deque()
        for numbers in groups:
            inputs = inputs_of(make_batch(numbers))
            if any(self._readers):
                inputs[OWN_TOKENS] = torch.ones(len(numbers), dtype=torch.bool)
            waiting.append((numbers, inputs, ensemble.submit(inputs)))
            if len(waiting) > _AHEAD:
                first, sent, handle = waiting.popleft()
                yield first, sent, ensemble.gather(handle)
        for first, sent, handle in waiting:
            yield first, sent, ensemble.gather(handle)

    def _add(
        self,
        number: int,
        keys: Keys,
        chosen: Longs,
        answers: Tensor,
        inputs: Mapping[str, Any],
    ) -> None:
        """Add a teacher's answers to the ``chosen`` rows of a batch."""
        if not len(chosen):
            return
        kind = self.tables[number].kind
        rows = _stored_rows(self._readers[number], some_rows(inputs, chosen)).rows
        kept = answers[torch.from_numpy(chosen).to(answers.device)]
        try:
            values = unpadded(_fitted(kept, rows, kind), rows, kind)
        except CheckpointError as error:
            raise CheckpointError(f"teacher {number}: {error}") from error
        self.tables[number].add(keys, counts_of(kind, rows.lengths), values)

    def _keys(self, number: int, keys: RowKeys) -> Keys:
        if self._readers[number] is None:
            return keys.tokens
        assert keys.texts is not None
        return keys.texts


def _first_missing(tables: TeacherTables, keys: Keys) -> NDArray[np.bool_]:
    """Return which rows are to be asked: the first of equal ones, if it has no answer."""
    missing = np.zeros(len(keys), np.bool_)
    missing[np.unique(keys, axis=0, return_index=True)[1]] = True
    return missing & ~tables.holds(keys)


def _stored_rows(reader: TextReader | None, inputs: Mapping[str, Any]) -> StoredRows:
    """Return the rows of a batch as one teacher has them: by their tokens or by their texts."""
    if reader is None:
        return StoredRows(rows_of(inputs))
    texts = reader.texts_of(inputs)
    keys = keys_of_texts(texts)
    if not isinstance(reader.task.kind, Span | Tag):
        return StoredRows(Rows(keys, np.ones((len(keys), 1), np.bool_)))
    tokens = reader.rows(texts)
    lengths = reader.lengths(tokens)
    real = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
    return StoredRows(Rows(keys, real), tokens)


def _fitted(answers: Tensor, rows: Rows, kind: Kind) -> Tensor:
    """Pad or cut answers to the width of the rows: teachers of several tokenizers answer together,
    each in the width of its longest row.
    """
    if not isinstance(kind, Span | Tag):
        return answers
    axis, width = (-1 if isinstance(kind, Span) else 1), rows.real.shape[-1]
    if answers.shape[axis] < width:
        shape = [*answers.shape]
        shape[axis] = width - answers.shape[axis]
        return torch.cat([answers, answers.new_full(shape, PAD_LOGIT)], axis)
    return answers.narrow(axis, 0, width)
