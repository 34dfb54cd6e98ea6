"""Ensemble behind a store: stored logits are read, missing ones come from live teachers and are
stored.

The first read too returns the stored value (rounded to fp16), so a cold, a warm and a resumed run
read the same numbers. Live teachers are started on the first miss and closed when the store is
complete. For a teacher with another tokenizer the store has the answer in the teacher's tokens,
which is transferred to the student's tokens on each read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.task_and_dataset import Kind, Span, Tag, Task
from road_ray.distillation.ensemble.cross_tokenizer.text_reader import TextReader, TokenRow
from road_ray.distillation.ensemble.protocol import (
    OWN_TOKENS,
    PAD_LOGIT,
    Ensemble,
    numbered,
)
from road_ray.distillation.ensemble.teacher import inputs_of, some_rows
from road_ray.distillation.logit_store.row_keys import (
    Keys,
    MissingRows,
    RowKeys,
    Rows,
    keys_of_texts,
    padded,
    rows_of,
    unpadded,
)
from road_ray.distillation.logit_store.teacher_store import RowLocations, TeacherStore
from road_ray.distillation.parity import Answers
from road_ray.distillation.teacher_identity import ANSWERS_FOR

_log = logging.getLogger(__name__)

Members = tuple[int, ...]
Live = Callable[[Members], tuple[Members, Ensemble]]
"""Starts at least the teachers of these numbers; returns the numbers of those started."""
OnEvent = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class StoreRows:
    """Rows of a batch as one store has them; ``tokens`` are the teacher's own, if it reads texts
    and answers per token.
    """

    rows: Rows
    tokens: list[list[TokenRow]] | None = None

    def select(self, numbers: NDArray[Any]) -> StoreRows:
        """Return the rows of these numbers."""
        tokens = self.tokens and [self.tokens[number] for number in numbers]
        return StoreRows(self.rows.select(numbers), tokens)


@dataclass
class Request:
    """Submitted batch: its rows and their locations in each store, and the requests to live
    teachers for missing ones.
    """

    inputs: Mapping[str, Any]
    rows: list[StoreRows]
    places: list[RowLocations]
    requests: list[tuple[Members, Ensemble, NDArray[np.int64], Any]] = field(default_factory=list)


class StoredEnsemble(Ensemble):
    """Ensemble with one store per teacher; close it after use.

    ``needed`` are the keys of all rows that will be requested, if known.
    """

    def __init__(
        self,
        stores: Sequence[TeacherStore],
        live: Live,
        *,
        readers: Sequence[TextReader | None] | None = None,
        needed: RowKeys | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        self.stores = tuple(stores)
        self._readers = tuple(readers or [None] * len(stores))
        self._stats: Mapping[str, float] = {}
        self.num_read, self.num_requested = 0, 0  # rows, over all teachers
        self._live, self._on_event = live, on_event
        self._started: list[tuple[Members, Ensemble]] = []
        self._missing_rows = None if needed is None else self._make_trackers(needed)
        self._in_flight, self._reported = 0, False
        self._mark_stored()

    @classmethod
    def open(
        cls,
        root: str | Path,
        manifest: Mapping[str, Any],
        task: Task,
        live: Live,
        *,
        needed: RowKeys | None = None,
        on_event: OnEvent | None = None,
    ) -> StoredEnsemble:
        """Open the stores below ``root`` of the teachers of a ``teacher_manifest``."""
        stores = [TeacherStore(root, teacher, task) for teacher in manifest["teachers"]]
        readers = [
            TextReader.of(teacher["directory"], task) if ANSWERS_FOR in teacher else None
            for teacher in manifest["teachers"]
        ]
        return cls(stores, live, readers=readers, needed=needed, on_event=on_event)

    @property
    def size(self) -> int:
        return len(self.stores)

    @property
    def stats(self) -> Mapping[str, float]:
        """Figures of the last answers that were transferred to the student's tokens."""
        return self._stats

    @property
    def complete(self) -> bool:
        """True if every needed row of every teacher is stored; False if the rows are unknown."""
        return self._missing_rows is not None and not any(
            rows.num_missing for rows in self._missing_rows
        )

    def submit(self, batch: Mapping[str, object]) -> Request:
        """Look up the rows and request missing ones from the live teachers."""
        inputs = inputs_of(batch)
        rows = self._rows_of(inputs)
        places = self._find(rows)
        if _missing(places).any() and self._refresh():
            places = self._find(rows)
        request, missing = Request(inputs, rows, places), _missing(places)
        self.num_read += int(missing.size - missing.sum())
        if missing.any():
            self._request_missing(request, missing)
        return request

    def gather(self, handle: Request) -> Tensor:
        """Return the stored logits. ``-> [M, B, ..., C]``, fp32; span padding is ``PAD_LOGIT``."""
        had_requests = bool(handle.requests)
        self._store_answers(handle)
        if had_requests or any(places.waits for places in handle.places):
            handle.places = self._find(handle.rows)
            if (missing := _missing(handle.places)).any():  # dropped, because the disk was full
                self._request_missing(handle, missing)
                self._store_answers(handle)
                handle.places = self._find(handle.rows)
        figures: dict[int, Mapping[str, float]] = {}
        answers = []
        for member, places in enumerate(handle.places):
            answer, figures[member] = self._read(member, handle.rows[member], places, handle.inputs)
            answers.append(answer)
        self._stats = numbered(figures)
        if had_requests:
            for store in self.stores:
                store.flush_if_due()
            self._mark_present(handle.rows)
        return torch.stack(answers)

    def holds(self, keys: RowKeys) -> NDArray[np.bool_]:
        """Return which rows are stored for every teacher. ``[N] -> [N]``."""
        held = [store.holds(self._keys(member, keys)) for member, store in enumerate(self.stores)]
        everywhere: NDArray[np.bool_] = np.logical_and.reduce(held)
        return everywhere

    def paths(self, batch: Mapping[str, object]) -> dict[str, Answers]:
        """Return the answers of store and live teachers to a batch, for ``check_parity``, without
        storing them. Teachers with a complete store are not started.
        """
        inputs = inputs_of(batch)
        rows = self._rows_of(inputs)
        held = ~_missing(self._find(rows))
        paths: dict[str, Answers] = {}
        if held.any():
            paths["the store"] = self._stored(inputs, rows, held)
        for members, ensemble in self._needed_live(self._lacking(held)):
            answers = ensemble.gather(ensemble.submit(inputs)).cpu()
            full = answers.new_zeros(self.size, *answers.shape[1:])
            full[list(members)] = answers
            counted = np.zeros_like(held)
            counted[list(members)] = True
            paths[f"the live teachers {', '.join(map(str, members))}"] = full, counted
        return paths

    def flush(self) -> None:
        for store in self.stores:
            store.flush()

    def close(self) -> None:
        """Close the live teachers and the stores, which are flushed."""
        self._release()
        for store in self.stores:
            store.close()

    def _rows_of(self, inputs: Mapping[str, object]) -> list[StoreRows]:
        """Return the rows of a batch as each store has them."""
        tokens = StoreRows(rows_of(inputs))
        return [
            tokens if reader is None else _text_rows(reader, inputs) for reader in self._readers
        ]

    def _keys(self, member: int, keys: RowKeys) -> Keys:
        if self._readers[member] is None:
            return keys.tokens
        assert keys.texts is not None
        return keys.texts

    def _make_trackers(self, needed: RowKeys) -> list[MissingRows]:
        """Return the rows that each store lacks; equal keys have one tracker."""
        by_text = {reader is not None: member for member, reader in enumerate(self._readers)}
        made = {texts: MissingRows(self._keys(member, needed)) for texts, member in by_text.items()}
        return [made[reader is not None] for reader in self._readers]

    def _read(
        self,
        member: int,
        rows: StoreRows,
        places: RowLocations | None,
        inputs: Mapping[str, object],
    ) -> tuple[Tensor, Mapping[str, float]]:
        """Return a teacher's stored answers for the student's tokens, and their figures."""
        store, reader = self.stores[member], self._readers[member]
        answers = padded(store.read(rows.rows, places), rows.rows, store.kind)
        if reader is None or rows.tokens is None:
            return answers, {}
        return reader.carried(rows.tokens, answers, inputs)

    def _request_missing(self, request: Request, missing: NDArray[np.bool_]) -> None:
        for members, ensemble in self._needed_live(np.array([rows.any() for rows in missing])):
            rows = np.flatnonzero(missing[list(members)].any(0))
            part = some_rows(request.inputs, rows)
            if any(self._readers):
                part[OWN_TOKENS] = torch.ones(len(rows), dtype=torch.bool)
            request.requests.append((members, ensemble, rows, ensemble.submit(part)))
            self.num_requested += len(members) * len(rows)
            self._in_flight += 1

    def _lacking(self, held: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which teachers lack a needed row, ``[M]``. If the needed rows are unknown, these
        are the rows of ``held`` ``[M, B]``.
        """
        if self._missing_rows is None:
            return np.array([not stored.all() for stored in held])
        pairs = zip(self.stores, self._missing_rows, strict=True)
        return np.array([not store.holds(needed.keys).all() for store, needed in pairs])

    def _needed_live(self, lacking: NDArray[np.bool_]) -> list[tuple[Members, Ensemble]]:
        """Return the live ensembles for teachers ``[M]``, started on their first miss."""
        needed = {int(member) for member in np.flatnonzero(lacking)}
        new = tuple(sorted(needed - {m for members, _ in self._started for m in members}))
        if new:
            self._started.append(self._live(new))
        return [started for started in self._started if needed & {*started[0]}]

    def _store_answers(self, request: Request) -> None:
        """Store the answers of the live teachers."""
        while request.requests:
            members, ensemble, numbers, handle = request.requests.pop()
            self._in_flight -= 1
            for member, answers in zip(members, ensemble.gather(handle), strict=True):
                part = request.rows[member].rows.select(numbers)
                self._add_new(self.stores[member], part, answers)

    def _add_new(self, store: TeacherStore, part: Rows, answers: Tensor) -> None:
        """Store answers to rows that are not stored yet. Some may be stored already, because live
        teachers answer together and other processes write too.
        """
        new = np.flatnonzero(~store.holds(part.keys))
        if len(new):
            part = part.select(new)
            fitted = _fitted(_selected(answers, new), part, store.kind)
            store.add(part, unpadded(fitted, part, store.kind))

    def _stored(
        self, inputs: Mapping[str, object], rows: Sequence[StoreRows], held: NDArray[np.bool_]
    ) -> Answers:
        """Return the stored logits of the rows in ``held`` ``[M, B]``; zeros for the others."""
        per_teacher = []
        for member, stored in enumerate(held):
            numbers = np.flatnonzero(stored)
            known, _ = self._read(
                member, rows[member].select(numbers), None, some_rows(inputs, numbers)
            )
            full = known.new_zeros(len(stored), *known.shape[1:])
            full[torch.from_numpy(stored)] = known
            per_teacher.append(full)
        return torch.stack(per_teacher), held

    def _find(self, rows: Sequence[StoreRows]) -> list[RowLocations]:
        pairs = zip(self.stores, rows, strict=True)
        return [store.find(store_rows.rows.keys) for store, store_rows in pairs]

    def _refresh(self) -> bool:
        changed = [store.refresh() for store in self.stores]
        if any(changed):
            self._mark_stored()
        return any(changed)

    def _mark_stored(self) -> None:
        """Mark the needed rows that are stored."""
        for tracker, stores in self._stores_by_tracker():
            held = [store.holds(tracker.keys) for store in stores]
            tracker.mark_present(tracker.keys[np.stack(held).all(0)])

    def _stores_by_tracker(self) -> list[tuple[MissingRows, list[TeacherStore]]]:
        """Return each tracker with the stores of its keys."""
        pairs: dict[int, tuple[MissingRows, list[TeacherStore]]] = {}
        for tracker, store in zip(self._missing_rows or (), self.stores, strict=False):
            pairs.setdefault(id(tracker), (tracker, []))[1].append(store)
        return list(pairs.values())

    def _mark_present(self, rows: Sequence[StoreRows]) -> None:
        """Mark rows as stored; with the last one, close the live teachers."""
        if self._missing_rows is None:
            return
        for tracker, store_rows in zip(self._missing_rows, rows, strict=True):
            tracker.mark_present(store_rows.rows.keys)
        if self.complete and not self._in_flight and self._started:
            self.flush()
            self._release()
            if self._on_event is not None and not self._reported:
                self._reported = True
                self._on_event({"kind": "store_complete", "rows": len(self._missing_rows[0].keys)})

    def _release(self) -> None:
        for _, ensemble in self._started:
            ensemble.close()
        self._started = []


def _text_rows(reader: TextReader, inputs: Mapping[str, object]) -> StoreRows:
    """Return the rows of a batch by their texts."""
    texts = reader.texts_of(inputs)
    keys = keys_of_texts(texts)
    if not isinstance(reader.task.kind, Span | Tag):
        return StoreRows(Rows(keys, np.ones((len(keys), 1), np.bool_)))
    tokens = reader.rows(texts)
    lengths = reader.lengths(tokens)
    real = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
    return StoreRows(Rows(keys, real), tokens)


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


def _missing(places: Sequence[RowLocations]) -> NDArray[np.bool_]:
    """Return which rows of which teacher are not stored. ``-> [M, B]``."""
    missing: NDArray[np.bool_] = np.logical_not([locations.is_stored for locations in places])
    return missing


def _selected(values: Tensor, rows: NDArray[np.int64]) -> Tensor:
    """Return these rows of a tensor, in rising order."""
    if len(rows) == len(values):
        return values
    return values[torch.from_numpy(rows).to(values.device)]
