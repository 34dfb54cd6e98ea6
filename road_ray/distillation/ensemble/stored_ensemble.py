"""Ensemble that reads the answers of its teachers from tables, and the labelling that fills them.

Every run reads the stored numbers (classes and spans rounded to fp16), so a student does not depend
on how often it was resumed. For a teacher with another tokenizer a table has the answers in the
teacher's tokens, which are transferred to the student's tokens on each read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from road_ray.data.features.examples_and_features import Longs
from road_ray.data.task_and_dataset import Kind, Span, Tag, Task
from road_ray.distillation.answers.row_keys import (
    Keys,
    Rows,
    counts_of,
    keys_of_texts,
    padded,
    rows_of,
    unpadded,
)
from road_ray.distillation.answers.teacher_tables import TeacherTables
from road_ray.distillation.ensemble.cross_tokenizer.text_reader import TextReader, TokenRow
from road_ray.distillation.ensemble.protocol import OWN_TOKENS, PAD_LOGIT, Ensemble, numbered
from road_ray.distillation.ensemble.teacher import inputs_of, some_rows
from road_ray.distillation.teacher_directory import ANSWERS_FOR
from road_ray.errors import CheckpointError

_AHEAD = 4  # batches that are sent to the teachers before the answers of the first are read

Members = tuple[int, ...]
Live = Callable[[Members], AbstractContextManager[Ensemble]]
"""Starts the teachers of these numbers until it is left; they answer in this order."""
Batches = Callable[[], Iterable[Mapping[str, Any]]]
"""Returns the batches to label, the same at each call."""


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

    def submit(self, batch: Mapping[str, object]) -> Mapping[str, Any]:
        """Return the inputs of the batch; ``gather`` looks its rows up."""
        return inputs_of(batch)

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
        self._stats = numbered(figures)
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
                own.append(_keys(reader, inputs))
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
            try:
                values = unpadded(_fitted(kept, rows, kind), rows, kind)
            except CheckpointError as error:
                raise CheckpointError(f"teacher {number}: {error}") from error
            self.tables[number].add(rows.keys, counts_of(kind, rows.lengths), values)


def _keys(reader: TextReader | None, inputs: Mapping[str, Any]) -> Keys:
    """Return the keys of the rows of a batch for one teacher: by their tokens or by their texts."""
    return rows_of(inputs).keys if reader is None else keys_of_texts(reader.needed(inputs, "texts"))


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
    lengths = reader.lengths(tokens)
    return Rows(keys, np.arange(int(lengths.max(initial=0))) < lengths[:, None]), tokens


def _fitted(answers: Tensor, rows: Rows, kind: Kind) -> Tensor:
    """Pad or cut answers to the width of the rows: teachers of several tokenizers answer together,
    each in the width of its longest row.
    """
    if not isinstance(kind, Span | Tag):
        return answers
    axis, width = (-1 if isinstance(kind, Span) else 1), rows.real.shape[-1]
    beyond = max(0, width - answers.shape[axis])
    sizes = (0, beyond) if axis == -1 else (0, 0, 0, beyond)
    return pad(answers, sizes, value=PAD_LOGIT).narrow(axis, 0, width)
