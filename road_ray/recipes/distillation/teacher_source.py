"""Source of the teachers' answers on one worker: the teachers, or tables of what they answered
before the training. Their parity is checked before the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from road_ray.data.batching import pad
from road_ray.data.features.examples_and_features import Features, Longs
from road_ray.data.task_and_dataset import Task
from road_ray.distillation.answers.row_keys import RowKeys, keys_of, keys_of_texts
from road_ray.distillation.ensemble.cross_tokenizer.row_texts import RowTexts
from road_ray.distillation.ensemble.local_ensemble import LocalEnsemble, TeacherOptions
from road_ray.distillation.ensemble.protocol import Ensemble
from road_ray.distillation.ensemble.stored_ensemble import Members, StoredEnsemble
from road_ray.distillation.parity import check_parity
from road_ray.distillation.teacher_identity import ANSWERS_FOR
from road_ray.distributed.connection import connected
from road_ray.recipes.distillation.config import TeachingConfig

if TYPE_CHECKING:
    from road_ray.distributed.teachers.client import ActorEnsemble

_PARITY_ROWS = 4
_GROUP_TOKENS = 1 << 14  # with padding, of rows that are labelled in one pass of a teacher
_GROUP_ROWS = 256

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
    store: Path | None = None  # directory of their tables; None: they answer during the training

    @property
    def mixed(self) -> bool:
        """Return True if a teacher has another tokenizer than the student and needs texts."""
        return any(ANSWERS_FOR in teacher for teacher in self.manifest["teachers"])

    @property
    def needs_pool(self) -> bool:
        """Return True if the teachers answer from actors during the training."""
        return self.store is None and self.settings.host == "actors"

    @property
    def options(self) -> TeacherOptions:
        """Return the options with which the teachers are loaded."""
        return TeacherOptions(
            student=self.student,
            label_map=self.settings.label_map,
            precision=self.settings.precision,
            compiled=self.settings.torch_compile,
        )

    def start_pool(self, beside: int) -> ActorEnsemble:
        """Start the teachers in actors of the connected cluster. Leaves room for ``beside`` workers
        and for the teachers of other data sets.
        """
        from road_ray.distributed.teachers.pool import start_teachers

        settings = self.settings
        return start_teachers(
            self.directories,
            self.task,
            teacher=self.options,
            replicas=settings.replicas,
            num_cpus=settings.cpus_per_teacher,
            num_gpus=settings.gpus_per_teacher,
            resources=settings.resources,
            beside=beside,
            other_teachers=self.other_teachers,
            timeout_seconds=settings.timeout_seconds,
        )

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
        if self.store is not None:
            path: str | None = "its table"
            ensemble: Ensemble = StoredEnsemble.open(self.store, self.manifest, self.task)
        else:
            path = "its actor" if actors else self._change_of_local_teachers()
            ensemble = actors or LocalEnsemble.load(
                self.directories, self.task, self.options, device
            )
            if actors is not None:
                actors.on_event = on_event
        if leads and self.settings.check_parity and path is not None:
            numbers = _few(len(features), rows)
            batch = _batch(features, numbers, pad_id, texts)
            self._check_parity(batch, path, ensemble, device, on_event)
        yield ensemble

    def label(
        self,
        features: Features,
        *,
        pad_id: int,
        device: torch.device,
        actors: ActorEnsemble | None = None,
        rows: NDArray[np.bool_] | None = None,
        texts: RowTexts | None = None,
    ) -> int:
        """Have the teachers answer the rows of ``features``, or those selected by ``rows``, that
        have no answer in their tables; return how many these were. Teachers that have answered all
        rows are not started. ``actors`` are the caller's, if it has started them.
        """
        assert self.store is not None

        @contextmanager
        def live(members: Members) -> Iterator[Ensemble]:
            chosen = replace(
                self,
                other_teachers=0,
                directories=[self.directories[member] for member in members],
                manifest={
                    **self.manifest,
                    "teachers": [self.manifest["teachers"][m] for m in members],
                },
            )
            with ExitStack() as stack:
                started = actors
                if actors is not None:
                    started = actors.part(members)
                elif self.settings.host == "actors":
                    stack.enter_context(connected(self.address))
                    started = stack.enter_context(chosen.start_pool(beside=0))
                labelling = replace(chosen, store=None).ensemble(
                    features, pad_id=pad_id, actors=started, device=device,
                    on_event=lambda *_, **__: None, rows=rows, texts=texts,
                )  # fmt: skip
                yield stack.enter_context(labelling)

        keys = RowKeys(keys_of(features), None if texts is None else keys_of_texts(texts.all()))
        numbers = np.arange(len(features)) if rows is None else np.flatnonzero(rows)
        groups = _groups(numbers, features.lengths * features.choices)
        positions = np.empty(len(features), np.int64)
        positions[numbers] = np.arange(len(numbers))
        return StoredEnsemble.open(self.store, self.manifest, self.task).label(
            keys.select(numbers),
            [positions[group] for group in groups],
            lambda chosen: _batch(features, numbers[chosen], pad_id, texts),
            live,
        )

    def of_fold(self, fold: int, count: int) -> TeacherSource:
        """Return the source for the rows of one of ``count`` folds: its share of the teachers."""
        each = len(self.directories) // count
        members = slice(fold * each, (fold + 1) * each)
        manifest = {**self.manifest, "teachers": self.manifest["teachers"][members]}
        return replace(self, directories=self.directories[members], manifest=manifest)

    def _change_of_local_teachers(self) -> str | None:
        """Return what sets teachers of this process apart from the reference, which is loaded in
        the same way otherwise.
        """
        if self.settings.precision == "int8":
            return "int8"
        return "torch.compile" if self.settings.torch_compile else None

    def _check_parity(
        self,
        batch: Mapping[str, Any],
        path: str,
        ensemble: Ensemble,
        device: torch.device,
        on_event: OnEvent,
    ) -> None:
        differences = check_parity(
            batch,
            self.directories,
            self.task,
            path,
            ensemble.gather(ensemble.submit(batch)),
            self.options,
            device,
        )
        on_event(
            "teachers_proven",
            rows=len(batch["input_ids"]),
            precision=self.settings.precision,
            difference={path: max(differences)},
        )


def _groups(numbers: Longs, lengths: Longs) -> list[Longs]:
    """Return the rows in groups of similar length that one pass of a teacher takes, long rows
    first.
    """
    order = numbers[np.argsort(-lengths[numbers], kind="stable")]
    groups, begin = [], 0
    while begin < len(order):
        size = max(1, min(_GROUP_ROWS, _GROUP_TOKENS // max(1, int(lengths[order[begin]]))))
        groups.append(order[begin : begin + size])
        begin += size
    return groups


def _few(count: int, rows: NDArray[np.bool_] | None) -> Longs:
    """Return the numbers of a few rows, spread over the data set."""
    numbers = np.arange(count) if rows is None else np.flatnonzero(rows)
    places = np.linspace(0, len(numbers) - 1, min(_PARITY_ROWS, len(numbers)))
    return numbers[places.astype(np.int64)]


def _batch(
    features: Features, numbers: Longs, pad_id: int, texts: RowTexts | None
) -> dict[str, Any]:
    batch: dict[str, Any] = {**pad(features, numbers, pad_id=pad_id)}
    return batch if texts is None else batch | texts.of(numbers, batch["input_ids"].shape[-1])
