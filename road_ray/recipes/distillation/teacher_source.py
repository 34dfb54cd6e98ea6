"""Source of the teachers' answers on one worker: the teachers, or a store in front of them. Their
parity is checked before the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from road_ray.data.batching import Batch, pad
from road_ray.data.features.examples_and_features import Features
from road_ray.data.task_and_dataset import Task
from road_ray.distillation.ensemble.cross_tokenizer.row_texts import RowTexts
from road_ray.distillation.ensemble.local_ensemble import LocalEnsemble
from road_ray.distillation.ensemble.protocol import Ensemble, NonOwningEnsemble
from road_ray.distillation.ensemble.stored_ensemble import Members, StoredEnsemble
from road_ray.distillation.logit_store.row_keys import RowKeys, keys_of, keys_of_texts
from road_ray.distillation.parity import Answers, all_counted, check_parity
from road_ray.distillation.teacher_identity import ANSWERS_FOR
from road_ray.distributed.connection import connected
from road_ray.recipes.distillation.config import TeachingConfig
from road_ray.recipes.distillation.teacher_pool import start_teacher_pool

if TYPE_CHECKING:
    from road_ray.distributed.teachers.client import ActorEnsemble

_PARITY_ROWS = 4  # rows that the store has, and as many that it does not have

OnEvent = Callable[..., None]
"""Writes an event to the journal: ``on_event(kind, **fields)``."""


@dataclass(frozen=True)
class TeacherSource:
    """Settings and teachers that determine the answers, the same on every worker."""

    settings: TeachingConfig
    task: Task
    directories: list[str]
    manifest: Mapping[str, Any]  # of these teachers
    address: str | None = None
    workers: int = 0
    other_teachers: int = 0  # of other data sets, which need room beside these
    student: str | None = None  # fingerprint of the student's tokenizer

    @property
    def mixed(self) -> bool:
        """Return True if a teacher has another tokenizer than the student and needs texts."""
        return any(ANSWERS_FOR in teacher for teacher in self.manifest["teachers"])

    @contextmanager
    def ensemble(
        self,
        features: Features,
        *,
        pad_id: int,
        actors: ActorEnsemble | None,
        device: torch.device,
        on_event: OnEvent,
        leads: bool = True,
        rows: NDArray[np.bool_] | None = None,
        texts: RowTexts | None = None,
    ) -> Iterator[Ensemble]:
        """Open the ensemble of one worker for the rows of ``features``, or those selected by
        ``rows``. ``actors`` are the driver's, if it started them. ``texts`` are those of the rows,
        for a mixed ensemble.
        """
        if self.settings.store is None:
            ensemble: Ensemble = actors or self._local(self.directories, device)
            if actors is not None:
                actors.on_event = on_event
            path = "its actor" if actors else self._change_of_local_teachers()
            if leads and self.settings.check_parity and path is not None:
                batch = _parity_batch(features, np.zeros(len(features), np.bool_), pad_id, texts)
                answers = ensemble.gather(ensemble.submit(batch))
                self._check_parity(batch, {path: all_counted(answers)}, device, on_event)
            yield ensemble
            return

        def live(members: Members) -> tuple[Members, Ensemble]:
            if actors is not None:
                return tuple(range(len(self.directories))), NonOwningEnsemble(actors)
            chosen = [self.directories[member] for member in members]
            on_event("teachers_started", teachers=list(members))
            if self.settings.host == "actors" and self.workers == 0:
                stack.enter_context(connected(self.address))
                started = start_teacher_pool(
                    self.settings,
                    self.task,
                    chosen,
                    beside=0,
                    other_teachers=self.other_teachers,
                    student=self.student,
                )
                started.on_event = on_event
                return members, started
            return members, self._local(chosen, device)

        keys = _keys_of(features, texts)
        with ExitStack() as stack, self._open_store(live, keys, on_event, rows) as stored:
            if leads and self.settings.check_parity:
                batch = _parity_batch(features, stored.holds(keys), pad_id, texts)
                self._check_parity(batch, stored.paths(batch), device, on_event)
            yield stored

    def of_fold(self, fold: int, count: int) -> TeacherSource:
        """Return the source for the rows of one of ``count`` folds: its share of the teachers."""
        each = len(self.directories) // count
        members = slice(fold * each, (fold + 1) * each)
        manifest = {**self.manifest, "teachers": self.manifest["teachers"][members]}
        return replace(self, directories=self.directories[members], manifest=manifest)

    def complete(
        self,
        features: Features,
        rows: NDArray[np.bool_] | None = None,
        texts: RowTexts | None = None,
    ) -> bool:
        """Return True if the store has every row of every teacher, so that none need be started.
        A mixed ensemble needs the ``texts`` of the rows.
        """
        if self.settings.store is None:
            return False

        def live(members: Members) -> tuple[Members, Ensemble]:
            raise AssertionError("looking into the store does not start teachers")

        keys = _keys_of(features, texts)
        with self._open_store(live, keys, lambda *_, **__: None, rows) as stored:
            return stored.complete

    def _change_of_local_teachers(self) -> str | None:
        """Return what sets teachers of this process apart from the reference, which is loaded in
        the same way otherwise.
        """
        if self.settings.precision == "int8":
            return "int8"
        return "torch.compile" if self.settings.torch_compile else None

    def _local(self, directories: Sequence[str], device: torch.device) -> LocalEnsemble:
        return LocalEnsemble.load(
            directories,
            self.task,
            student=self.student,
            label_map=self.settings.label_map,
            device=device,
            precision=self.settings.precision,
            compiled=self.settings.torch_compile,
        )

    def _open_store(
        self, live: Any, keys: RowKeys, on_event: OnEvent, rows: NDArray[np.bool_] | None
    ) -> StoredEnsemble:
        assert self.settings.store is not None
        return StoredEnsemble.open(
            self.settings.store,
            self.manifest,
            self.task,
            live,
            needed=keys if rows is None else keys.select(rows),
            on_event=lambda event: on_event(**event),
        )

    def _check_parity(
        self,
        batch: Mapping[str, Any],
        paths: Mapping[str, Answers],
        device: torch.device,
        on_event: OnEvent,
    ) -> None:
        drifts = check_parity(
            batch,
            self.directories,
            self.task,
            paths,
            student=self.student,
            label_map=self.settings.label_map,
            device=device,
            precision=self.settings.precision,
        )
        worst = {drift.path: 0.0 for drift in drifts}
        for drift in drifts:
            worst[drift.path] = max(worst[drift.path], drift.difference)
        on_event(
            "teachers_proven",
            rows=len(batch["input_ids"]),
            precision=self.settings.precision,
            difference=worst,
        )


def flush_store_before_checkpoint(
    steps: Iterator[list[Batch]], *ensembles: Ensemble, start: int, every: int | None
) -> Iterator[list[Batch]]:
    """Yield the steps; write the answers so far to disk before each step with a checkpoint.

    A run that resumes from the checkpoint then reads the same answers as the killed run did,
    instead of computing them again in other batches, where sums may round differently.
    """
    for step, passes in enumerate(steps, start + 1):
        if every is not None and step % every == 0:
            for ensemble in ensembles:
                ensemble.flush()
        yield passes


def _keys_of(features: Features, texts: RowTexts | None) -> RowKeys:
    return RowKeys(keys_of(features), None if texts is None else keys_of_texts(texts.all()))


def _parity_batch(
    features: Features, held: Any, pad_id: int, texts: RowTexts | None
) -> dict[str, Any]:
    """Return a batch of a few rows spread over the data set: rows that the store has (``held``) and
    rows that it does not have.
    """
    chosen = []
    for numbers in (np.flatnonzero(held), np.flatnonzero(~held)):
        if len(numbers):
            places = np.linspace(0, len(numbers) - 1, min(_PARITY_ROWS, len(numbers)))
            chosen.append(numbers[places.astype(np.int64)])
    numbers = np.concatenate(chosen)
    batch: dict[str, Any] = {**pad(features, numbers, pad_id=pad_id)}
    return batch if texts is None else batch | texts.of(numbers, batch["input_ids"].shape[-1])
