"""Ensemble behind a store: stored logits are read, missing ones come from live teachers and are
stored.

The first read too returns the stored value (rounded to fp16), so a cold, a warm and a resumed run
read the same numbers. Live teachers are started on the first miss and closed when the store is
complete. Of a teacher with another tokenizer the store has the answer in its own tokens, which is
carried to the student's on each read.
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

from road_ray.data.schema import Kind, Span, Tag, Task
from road_ray.distillation.ensemble.base import (
    OWN_TOKENS,
    PAD_LOGIT,
    Ensemble,
    WrappedEnsemble,
    inputs_of,
    numbered,
    some_rows,
)
from road_ray.distillation.ensemble.text_reader import TextReader, TokenRow
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

    def some(self, numbers: NDArray[Any]) -> StoreRows:
        """Return the rows of these numbers."""
        tokens = self.tokens and [self.tokens[number] for number in numbers]
        return StoreRows(self.rows.some(numbers), tokens)


@dataclass
class Request:
    """Submitted batch: its rows and their locations in each store, and the requests to live
    teachers for missing ones.
    """

    inputs: Mapping[str, Any]
    rows: list[StoreRows]
    places: list[RowLocations]
    asked: list[tuple[Members, Ensemble, NDArray[np.int64], Any]] = field(default_factory=list)


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
        self.num_read, self.num_asked = 0, 0  # rows, over all teachers
        self._live, self._on_event = live, on_event
        self._started: list[tuple[Members, Ensemble]] = []
        self._wanted = None if needed is None else self._trackers(needed)
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
        """Figures of the last answers that were carried to the student's tokens."""
        return self._stats

    @property
    def complete(self) -> bool:
        """Return whether every needed row of every teacher is stored; False if rows are unknown."""
        return self._wanted is not None and not any(one.num_missing for one in self._wanted)

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
            self._ask(request, missing)
        return request

    def gather(self, handle: Request) -> Tensor:
        """Return the stored logits. ``-> [M, B, ..., C]``, fp32; span padding is ``PAD_LOGIT``."""
        was_asked = bool(handle.asked)
        self._take(handle)
        if was_asked or any(places.waits for places in handle.places):
            handle.places = self._find(handle.rows)
            if (missing := _missing(handle.places)).any():  # dropped, because the disk was full
                self._ask(handle, missing)
                self._take(handle)
                handle.places = self._find(handle.rows)
        figures: dict[int, Mapping[str, float]] = {}
        answers = []
        for member, places in enumerate(handle.places):
            answer, figures[member] = self._read(member, handle.rows[member], places, handle.inputs)
            answers.append(answer)
        self._stats = numbered(figures)
        if was_asked:
            for store in self.stores:
                store.flush_if_due()
            self._mark(handle.rows)
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

    def _trackers(self, needed: RowKeys) -> list[MissingRows]:
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

    def _ask(self, request: Request, missing: NDArray[np.bool_]) -> None:
        for members, ensemble in self._needed_live(np.array([some.any() for some in missing])):
            rows = np.flatnonzero(missing[list(members)].any(0))
            part = some_rows(request.inputs, rows)
            if any(self._readers):
                part[OWN_TOKENS] = torch.ones(len(rows), dtype=torch.bool)
            request.asked.append((members, ensemble, rows, ensemble.submit(part)))
            self.num_asked += len(members) * len(rows)
            self._in_flight += 1

    def _lacking(self, held: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which teachers lack a needed row, ``[M]``; if the needed rows are unknown, one of
        ``held`` ``[M, B]``.
        """
        if self._wanted is None:
            return np.array([not there.all() for there in held])
        pairs = zip(self.stores, self._wanted, strict=True)
        return np.array([not store.holds(one.keys).all() for store, one in pairs])

    def _needed_live(self, lacking: NDArray[np.bool_]) -> list[tuple[Members, Ensemble]]:
        """Return the live ensembles for teachers ``[M]``, started on their first miss."""
        wanted = {int(member) for member in np.flatnonzero(lacking)}
        new = tuple(sorted(wanted - {m for members, _ in self._started for m in members}))
        if new:
            self._started.append(self._live(new))
        return [started for started in self._started if wanted & {*started[0]}]

    def _take(self, request: Request) -> None:
        """Store the answers of the live teachers."""
        while request.asked:
            members, ensemble, numbers, asked = request.asked.pop()
            self._in_flight -= 1
            for member, answers in zip(members, ensemble.gather(asked), strict=True):
                part = request.rows[member].rows.some(numbers)
                self._keep(self.stores[member], part, answers)

    def _keep(self, store: TeacherStore, part: Rows, answers: Tensor) -> None:
        """Store answers to rows that are not stored yet: some may be, because live teachers answer
        together and other processes write too.
        """
        new = np.flatnonzero(~store.holds(part.keys))
        if len(new):
            part = part.some(new)
            fitted = _fitted(_taken(answers, new), part, store.kind)
            store.add(part, unpadded(fitted, part, store.kind))

    def _stored(
        self, inputs: Mapping[str, object], rows: Sequence[StoreRows], held: NDArray[np.bool_]
    ) -> Answers:
        """Return the stored logits of the rows in ``held`` ``[M, B]``; zeros for the others."""
        per_teacher = []
        for member, there in enumerate(held):
            numbers = np.flatnonzero(there)
            known, _ = self._read(
                member, rows[member].some(numbers), None, some_rows(inputs, numbers)
            )
            full = known.new_zeros(len(there), *known.shape[1:])
            full[torch.from_numpy(there)] = known
            per_teacher.append(full)
        return torch.stack(per_teacher), held

    def _find(self, rows: Sequence[StoreRows]) -> list[RowLocations]:
        pairs = zip(self.stores, rows, strict=True)
        return [store.find(some.rows.keys) for store, some in pairs]

    def _refresh(self) -> bool:
        changed = [store.refresh() for store in self.stores]
        if any(changed):
            self._mark_stored()
        return any(changed)

    def _mark_stored(self) -> None:
        """Mark the needed rows that are stored."""
        for tracker, stores in self._tracked():
            held = [store.holds(tracker.keys) for store in stores]
            tracker.found(tracker.keys[np.stack(held).all(0)])

    def _tracked(self) -> list[tuple[MissingRows, list[TeacherStore]]]:
        """Return each tracker with the stores of its keys."""
        found: dict[int, tuple[MissingRows, list[TeacherStore]]] = {}
        for tracker, store in zip(self._wanted or (), self.stores, strict=False):
            found.setdefault(id(tracker), (tracker, []))[1].append(store)
        return list(found.values())

    def _mark(self, rows: Sequence[StoreRows]) -> None:
        """Mark rows as stored; with the last one, close the live teachers."""
        if self._wanted is None:
            return
        for tracker, some in zip(self._wanted, rows, strict=True):
            tracker.found(some.rows.keys)
        if self.complete and not self._in_flight and self._started:
            self.flush()
            self._release()
            if self._on_event is not None and not self._reported:
                self._reported = True
                self._on_event({"kind": "store_complete", "rows": len(self._wanted[0].keys)})

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
        room = [*answers.shape]
        room[axis] = width - answers.shape[axis]
        return torch.cat([answers, answers.new_full(room, PAD_LOGIT)], axis)
    return answers.narrow(axis, 0, width)


def _missing(places: Sequence[RowLocations]) -> NDArray[np.bool_]:
    """Return which rows of which teacher are not stored. ``-> [M, B]``."""
    missing: NDArray[np.bool_] = np.logical_not([one.found for one in places])
    return missing


def _taken(tensor: Tensor, rows: NDArray[np.int64]) -> Tensor:
    """Return these rows of a tensor, in rising order."""
    if len(rows) == len(tensor):
        return tensor
    return tensor[torch.from_numpy(rows).to(tensor.device)]


class NonOwningEnsemble(WrappedEnsemble):
    """View of an ensemble whose ``close`` leaves the ensemble open."""

    def close(self) -> None:
        """Do nothing: the owner closes the ensemble."""
