"""Ensemble behind a store: stored logits are read, missing ones come from live teachers and are
stored.

The first read too returns the stored value (rounded to fp16), so a cold, a warm and a resumed run
read the same numbers. Live teachers are started on the first miss and closed when the store is
complete.
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

from road_ray.data.schema import Task
from road_ray.distillation.ensemble.base import Ensemble, inputs_of, some_rows
from road_ray.distillation.logit_store.rows import (
    Keys,
    MissingRows,
    Rows,
    padded,
    rows_of,
    unpadded,
)
from road_ray.distillation.logit_store.store import RowLocations, TeacherStore
from road_ray.distillation.parity import Answers

_log = logging.getLogger(__name__)

Members = tuple[int, ...]
Live = Callable[[Members], tuple[Members, Ensemble]]
"""Starts at least the teachers of these numbers; returns the numbers of those started."""
OnEvent = Callable[[dict[str, Any]], None]


@dataclass
class Request:
    """Submitted batch: its rows, their locations in each store, and the requests to live teachers
    for missing ones.
    """

    inputs: Mapping[str, Any]
    rows: Rows
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
        needed: Keys | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        self.stores = tuple(stores)
        self.num_read, self.num_asked = 0, 0  # rows, over all teachers
        self._live, self._on_event = live, on_event
        self._started: list[tuple[Members, Ensemble]] = []
        self._wanted = None if needed is None else MissingRows(needed)
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
        needed: Keys | None = None,
        on_event: OnEvent | None = None,
    ) -> StoredEnsemble:
        """Open the stores below ``root`` of the teachers of a ``teacher_manifest``."""
        stores = [TeacherStore(root, teacher, task) for teacher in manifest["teachers"]]
        return cls(stores, live, needed=needed, on_event=on_event)

    @property
    def size(self) -> int:
        return len(self.stores)

    @property
    def complete(self) -> bool:
        """Return whether every needed row of every teacher is stored; False if rows are unknown."""
        return self._wanted is not None and self._wanted.num_missing == 0

    def submit(self, batch: Mapping[str, Any]) -> Request:
        """Look up the rows and request missing ones from the live teachers."""
        inputs = inputs_of(batch)
        rows = rows_of(inputs)
        places = self._find(rows.keys)
        if _missing(places).any() and self._refresh():
            places = self._find(rows.keys)
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
            handle.places = self._find(handle.rows.keys)
            if (missing := _missing(handle.places)).any():  # dropped, because the disk was full
                self._ask(handle, missing)
                self._take(handle)
                handle.places = self._find(handle.rows.keys)
        answers = torch.stack(
            [
                padded(store.read(handle.rows, places), handle.rows, store.kind)
                for store, places in zip(self.stores, handle.places, strict=True)
            ]
        )
        if was_asked:
            for store in self.stores:
                store.flush_if_due()
            self._mark(handle.rows.keys)
        return answers

    def holds(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which rows are stored for every teacher. ``[N, 2] -> [N]``."""
        held: NDArray[np.bool_] = np.logical_not(np.any(_missing(self._find(keys)), axis=0))
        return held

    def paths(self, batch: Mapping[str, Any]) -> dict[str, Answers]:
        """Return the answers of store and live teachers to a batch, for ``check_parity``, without
        storing them. Teachers with a complete store are not started.
        """
        inputs = inputs_of(batch)
        rows = rows_of(inputs)
        held = ~_missing(self._find(rows.keys))
        paths: dict[str, Answers] = {}
        if held.any():
            paths["the store"] = self._stored(rows, held)
        lacking = ~held if self._wanted is None else _missing(self._find(self._wanted.keys))
        for members, ensemble in self._needed_live(lacking):
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

    def _ask(self, request: Request, missing: NDArray[np.bool_]) -> None:
        for members, ensemble in self._needed_live(missing):
            rows = np.flatnonzero(missing[list(members)].any(0))
            part = some_rows(request.inputs, rows)
            request.asked.append((members, ensemble, rows, ensemble.submit(part)))
            self.num_asked += len(members) * len(rows)
            self._in_flight += 1

    def _needed_live(self, missing: NDArray[np.bool_]) -> list[tuple[Members, Ensemble]]:
        """Return the live ensembles that a batch needs, started on their first miss."""
        wanted = {int(member) for member in np.flatnonzero(missing.any(1))}
        new = tuple(sorted(wanted - {m for members, _ in self._started for m in members}))
        if new:
            self._started.append(self._live(new))
        return [started for started in self._started if wanted & {*started[0]}]

    def _take(self, request: Request) -> None:
        """Store the answers of the live teachers."""
        while request.asked:
            members, ensemble, numbers, asked = request.asked.pop()
            self._in_flight -= 1
            part = request.rows.some(numbers)
            for member, answers in zip(members, ensemble.gather(asked), strict=True):
                self._keep(self.stores[member], part, answers)

    def _keep(self, store: TeacherStore, part: Rows, answers: Tensor) -> None:
        """Store answers to rows that are not stored yet: some may be, because live teachers answer
        together and other processes write too.
        """
        new = np.flatnonzero(~store.holds(part.keys))
        if len(new):
            part = part.some(new)
            store.add(part, unpadded(_taken(answers, new), part, store.kind))

    def _stored(self, rows: Rows, held: NDArray[np.bool_]) -> Answers:
        """Return the stored logits of the rows in ``held`` ``[M, B]``; zeros for the others."""
        per_teacher = []
        for store, there in zip(self.stores, held, strict=True):
            part = rows.some(there)
            known = padded(store.read(part), part, store.kind)
            full = known.new_zeros(len(rows), *known.shape[1:])
            full[torch.from_numpy(there)] = known
            per_teacher.append(full)
        return torch.stack(per_teacher), held

    def _find(self, keys: Keys) -> list[RowLocations]:
        return [store.find(keys) for store in self.stores]

    def _refresh(self) -> bool:
        changed = [store.refresh() for store in self.stores]
        if any(changed):
            self._mark_stored()
        return any(changed)

    def _mark_stored(self) -> None:
        """Mark the needed rows that are stored."""
        if self._wanted is not None:
            self._wanted.found(self._wanted.keys[self.holds(self._wanted.keys)])

    def _mark(self, keys: Keys) -> None:
        """Mark rows as stored; with the last one, close the live teachers."""
        if self._wanted is None:
            return
        self._wanted.found(keys)
        if self.complete and not self._in_flight and self._started:
            self.flush()
            self._release()
            if self._on_event is not None and not self._reported:
                self._reported = True
                self._on_event({"kind": "store_complete", "rows": len(self._wanted.keys)})

    def _release(self) -> None:
        for _, ensemble in self._started:
            ensemble.close()
        self._started = []


def _missing(places: Sequence[RowLocations]) -> NDArray[np.bool_]:
    """Return which rows of which teacher are not stored. ``-> [M, B]``."""
    missing: NDArray[np.bool_] = np.logical_not([one.found for one in places])
    return missing


def _taken(tensor: Tensor, rows: NDArray[np.int64]) -> Tensor:
    """Return these rows of a tensor, in rising order."""
    if len(rows) == len(tensor):
        return tensor
    return tensor[torch.from_numpy(rows).to(tensor.device)]


class NonOwningEnsemble(Ensemble):
    """View of an ensemble whose ``close`` leaves the ensemble open."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble

    @property
    def size(self) -> int:
        return self._ensemble.size

    def submit(self, batch: Mapping[str, Any]) -> Any:
        return self._ensemble.submit(batch)

    def gather(self, handle: Any) -> Tensor:
        return self._ensemble.gather(handle)
