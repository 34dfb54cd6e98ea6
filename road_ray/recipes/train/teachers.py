"""Teachers of one data set, resolved once and the same on every worker: they answer live, in actors
or in this process, or from tables of what they answered before the training. The record of a run
says which they were."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from transformers import PreTrainedTokenizerFast

from road_ray.config import to_dict
from road_ray.data.batching import Batch, pad, token_budget_cuts
from road_ray.data.examples import Longs
from road_ray.data.load_split import Split, row_features
from road_ray.data.mixing import Since
from road_ray.data.task_and_dataset import Task
from road_ray.data.tokenizer import pad_id_of
from road_ray.data.training_rows import row_folds
from road_ray.distillation.annotate import annotate
from road_ray.distillation.cross_tokenizer import TextsOf, row_texts
from road_ray.distillation.ensemble import Ensemble, LocalEnsemble, RowEnsemble
from road_ray.distillation.stored_ensemble import Members, StoredEnsemble
from road_ray.distillation.teacher import check_parity
from road_ray.distillation.teacher_directory import ANSWERS_FOR, TeacherOptions, decisive_entries
from road_ray.distillation.weighting import Rule, default_rule, resolve
from road_ray.distributed.connection import connected
from road_ray.errors import counted
from road_ray.recipes.run_directory.input_files import identity_of
from road_ray.recipes.train.answer_files import FILE_SHA256, readers_of
from road_ray.recipes.train.config import DistillConfig, MultitaskConfig, TrainConfig
from road_ray.recipes.train.teaching_config import WeightingConfig
from road_ray.training.worker import Worker

if TYPE_CHECKING:
    from road_ray.distributed.teachers import ActorEnsemble


_log = logging.getLogger(__name__)
_PARITY_ROWS = 4
_GROUP_TOKENS = 1 << 14  # with padding, of rows that are labelled in one pass of a teacher
_GROUP_ROWS = 256

OnEvent = Callable[..., None]
"""Writes an event to the journal: ``on_event(kind, **fields)``."""


@dataclass(frozen=True)
class Teachers:
    """Teachers of one data set, and the settings that determine their answers."""

    config: DistillConfig | MultitaskConfig
    task: Task
    entries: Sequence[Mapping[str, Any]]
    """Entries of the teachers in the record of the run, in their order; where there are folds, the
    models of one fold after those of another, and files behind them."""
    folds: int  # of out-of-fold teachers, which answer only for rows that they have not seen
    per_row: int  # teachers that answer each row: the models of a fold, and all files
    tokenizer: PreTrainedTokenizerFast  # the student's
    options: TeacherOptions  # with which the models are loaded
    store: Path | None  # directory of the models' tables; None: they answer during the training
    answers: Sequence[pa.LargeListArray] = ()  # of the teachers that are files, once they are read

    @property
    def models(self) -> list[Mapping[str, Any]]:
        """Entries of the teachers that are models."""
        return [entry for entry in self.entries if FILE_SHA256 not in entry]

    @property
    def files(self) -> dict[int, Mapping[str, Any]]:
        """Entries of the teachers that are files, by their number among the teachers of a row."""
        others = len(self.entries) - self.per_row  # models of other folds than that of a row
        numbered = enumerate(self.entries, -others)
        return {number: entry for number, entry in numbered if FILE_SHA256 in entry}

    def start_pool(self, beside: int = 0, others: int = 0) -> ActorEnsemble:
        """Start the teachers in actors of the connected cluster. Leaves room for ``beside`` workers
        and for ``others``, the teachers of other data sets.
        """
        from road_ray.distributed.teachers import start_teachers

        settings = self.config.distillation
        resources = dict(settings.resources)
        return start_teachers(
            [entry["directory"] for entry in self.models],
            self.task,
            teacher=self.options,
            replicas=settings.replicas,
            num_cpus=resources.pop("CPU", None),
            num_gpus=resources.pop("GPU", 0.0),
            resources=resources,
            beside=beside,
            other_teachers=settings.replicas * others,
            timeout_seconds=settings.timeout_seconds,
        )

    def open(
        self, split: Split, actors: ActorEnsemble | None, *, worker: Worker, on_event: OnEvent
    ) -> RowEnsemble:
        """Return the ensemble of a worker for the rows of ``split``; rank 0 compares a few answers
        with the models' first. ``actors`` are the driver's, if it started them.
        """
        if worker.is_main:
            rule = self.config.weighting.rule or default_rule(self.per_row)
            of_row = counted(self.per_row, "teacher")
            of_row += f" a row, of {self.folds} folds" if self.folds > 1 else ""
            rows_of_split = counted(len(split.examples), "row")
            _log.info("%s: %s; %s, rule %s", split.dataset.name, rows_of_split, of_row, rule)
        texts = self.texts(split)
        members = [
            models._open(split, texts, rows, some, worker, on_event)
            for models, rows, some in self._by_fold(split, actors)
        ]
        files = readers_of(self, split) if len(self.models) < len(self.entries) else {}
        return RowEnsemble(members, row_folds(split, self.folds), texts, files)

    def teach(self, since: Since, ensemble: Ensemble, number: int) -> Iterator[Batch]:
        """Yield the batches of ``since(number)`` with the answers of the ``ensemble``; their
        statistics are ``teachers/right_0`` to ``right_M``.
        """
        settings, weighting = self.config.distillation, self.config.weighting
        rule = weighting_rule(weighting, settings.temperature, num_teachers=self.per_row)
        batches, each = since(number), settings.average_loss
        return annotate(batches, ensemble, rule, settings.lookahead, each=each)

    def label(self, split: Split, actors: ActorEnsemble | None = None) -> None:
        """Have the models answer the rows of ``split`` that have no answer in their tables: all
        of them every row, those of folds the rows that they have not seen. ``actors`` are the
        caller's, if it has started them.
        """
        texts = self.texts(split)
        for models, rows, some in self._by_fold(split, actors):
            if len(rows):  # a fold of few rows may have none
                models._label(split, texts, rows, some)

    def texts(self, split: Split) -> TextsOf | None:
        """Return the function that gives the texts of rows, if a model needs them."""
        if not any(ANSWERS_FOR in entry for entry in self.entries):
            return None  # every tokenizer is the student's
        return partial(row_texts, split, row_features(split, self.tokenizer, self.config.data))

    def _batch(self, split: Split, texts: TextsOf | None, rows: Longs) -> dict[str, Any]:
        """Return the batch of these rows, as a model is asked for them."""
        batch: dict[str, Any] = {**pad(split.features, rows, pad_id=pad_id_of(self.tokenizer))}
        return batch if texts is None else batch | texts(rows, batch["input_ids"].shape[-1])

    def _by_fold(
        self, split: Split, actors: ActorEnsemble | None
    ) -> Iterator[tuple[Teachers, Longs, ActorEnsemble | None]]:
        """Yield the models of each fold, the rows that they answer and their actors."""
        models, folds = self.models, row_folds(split, self.folds)
        size = len(models) // self.folds
        for fold in range(self.folds if models else 0):
            members = range(fold * size, (fold + 1) * size)
            some = actors.part(members) if actors and self.folds > 1 else actors
            entries = models[members.start : members.stop]
            of_fold = replace(self, folds=1, per_row=size, entries=entries)
            yield of_fold, np.flatnonzero(folds == fold), some

    def _open(
        self,
        split: Split,
        texts: TextsOf | None,
        rows: Longs,
        actors: ActorEnsemble | None,
        worker: Worker,
        on_event: OnEvent,
    ) -> Ensemble:
        """Return the ensemble of these models, proven on a few of their ``rows``."""
        device, settings = worker.device, self.config.distillation
        directories = [entry["directory"] for entry in self.models]
        if self.store is not None:
            path: str | None = "its table"
            ensemble: Ensemble = StoredEnsemble(self.store, self.models, self.task)
        elif actors is not None:
            path, ensemble = "its actor", actors
            actors.on_event = on_event
        else:
            ensemble = LocalEnsemble(directories, self.task, self.options, device)
            # What sets them apart from the reference, which is loaded in the same way otherwise.
            path = "torch.compile" if self.options.compiled else None
        if worker.is_main and settings.check_parity and path is not None and len(rows):
            few = rows[np.linspace(0, len(rows) - 1, min(_PARITY_ROWS, len(rows))).astype(np.int64)]
            batch = self._batch(split, texts, few)
            answers = ensemble.gather(ensemble.submit(batch))
            most = check_parity(batch, directories, self.task, path, answers, self.options, device)
            proven = {"precision": settings.precision, "difference": {path: most}}
            on_event("teachers_proven", rows=len(few), **proven)
        return ensemble

    def _label(
        self, split: Split, texts: TextsOf | None, rows: Longs, actors: ActorEnsemble | None
    ) -> None:
        """Have these models answer the ``rows`` that have no answer in their tables."""

        @contextmanager
        def live(members: Members) -> Iterator[Ensemble]:
            entries, alone = [self.models[member] for member in members], Worker.alone()
            chosen = replace(self, folds=1, per_row=len(entries), entries=entries, store=None)
            with ExitStack() as stack:
                started = actors and actors.part(members)
                if actors is None and self.config.distillation.host == "actors":
                    stack.enter_context(connected(self.config.address))
                    started = stack.enter_context(chosen.start_pool())
                yield chosen._open(split, texts, rows, started, alone, lambda *_, **__: None)

        lengths = split.features.lengths * split.features.choices
        ordered = rows[np.argsort(lengths[rows], kind="stable")]
        cuts = token_budget_cuts(lengths[ordered], _GROUP_TOKENS, _GROUP_ROWS)
        # Rows of similar length together, the longest first: they need the most memory.
        groups = np.split(ordered, cuts)[::-1]
        assert self.store is not None
        tables = StoredEnsemble(self.store, self.models, self.task)
        tables.label(lambda: (self._batch(split, texts, group) for group in groups), live)


def weighting_rule(
    weighting: WeightingConfig, temperature: float = 1.0, *, num_teachers: int
) -> Rule:
    """Return the rule for rows with ``num_teachers`` teachers, with the options that it takes."""
    settings = to_dict(weighting) | {"temperature": temperature}
    return resolve(settings.pop("rule") or default_rule(num_teachers), settings)


# Settings of the distillation in the record and the card of the model.
_CARD_SETTINGS = ("kd_weight", "schedule", "temperature", "average_loss", "matching")


def lineage(
    config: TrainConfig, teachers: Mapping[str, Teachers]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the teachers for the record of the model, and the identity of a run with them."""
    if not isinstance(config, DistillConfig | MultitaskConfig) or not teachers:
        return {}, {}
    several, settings = isinstance(config, MultitaskConfig), to_dict(config.distillation)
    most = max(found.per_row for found in teachers.values())
    record = {
        "distillation": {name: settings[name] for name in _CARD_SETTINGS if name in settings},
        "weighting": to_dict(config.weighting)
        | {"rule": config.weighting.rule or default_rule(most)},
        "teachers": [
            {**teacher, **({"dataset": name} if several else {})}
            for name, found in teachers.items()
            for teacher in found.entries
        ],
    }
    identity = identity_of(teachers=manifest_of(config, teachers, decisive_entries))
    folds = 1 if several else next(iter(teachers.values())).folds
    return record, identity | (identity_of(folds=folds) if folds > 1 else {})


def manifest_of(
    config: TrainConfig,
    teachers: Mapping[str, Teachers],
    part: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
) -> dict[str, Any]:
    """Return the manifest of the teachers of a run, with that ``part`` of each entry; a mixture has
    one of each data set.
    """
    manifests: dict[str, Any] = {
        name: {"task": found.task.name, "teachers": list(map(part, found.entries))}
        for name, found in teachers.items()
    }
    several = isinstance(config, MultitaskConfig)
    return {"datasets": manifests} if several else manifests[config.data.trained_on[0]]
