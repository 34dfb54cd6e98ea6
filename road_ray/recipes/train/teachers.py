"""Teachers of one data set, resolved once and the same on every worker: they answer live, in actors
or in this process, or from tables of what they answered before the training. The record of a run
says which they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from road_ray.config import to_dict
from road_ray.data.batching import Batch, BatchStream, pad
from road_ray.data.config import SourceConfig
from road_ray.data.features.examples_and_features import Features, Longs
from road_ray.data.load_split import Split, row_features
from road_ray.data.shuffle_into_batches import token_budget_cuts
from road_ray.data.task_and_dataset import Task
from road_ray.data.tokenizer import pad_id_of
from road_ray.data.training_rows import row_folds
from road_ray.distillation.annotate import annotate
from road_ray.distillation.cross_tokenizer import RowTexts
from road_ray.distillation.ensemble import Ensemble, LocalEnsemble, OutOfFoldEnsemble, WithTexts
from road_ray.distillation.stored_ensemble import Members, StoredEnsemble, TeacherTables
from road_ray.distillation.teacher import TeacherOptions, check_parity
from road_ray.distillation.teacher_directory import ANSWERS_FOR, identity_only
from road_ray.distillation.weighting import Rule, default_rule, options_of, resolve
from road_ray.distributed.connection import connected
from road_ray.recipes.run_directory.input_files import identity_of
from road_ray.recipes.train.answer_files import WithAnswerFiles, read_files
from road_ray.recipes.train.config import MultitaskConfig, TrainConfig
from road_ray.recipes.train.teaching_config import TeachingConfig, WeightingConfig
from road_ray.system.files import write_json_atomic
from road_ray.training.checkpoint_directory import has_checkpoints
from road_ray.training.worker import Worker

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from road_ray.distributed.teachers import ActorEnsemble


_PARITY_ROWS = 4
_GROUP_TOKENS = 1 << 14  # with padding, of rows that are labelled in one pass of a teacher
_GROUP_ROWS = 256

OnEvent = Callable[..., None]
"""Writes an event to the journal: ``on_event(kind, **fields)``."""


@dataclass(frozen=True)
class Teachers:
    """Teachers of one data set, and the settings that determine their answers."""

    settings: TeachingConfig
    weighting: WeightingConfig
    task: Task
    data: SourceConfig
    directories: list[str]  # of models, fold after fold
    manifest: Mapping[str, Any]  # of these models
    folds: int = 1  # of out-of-fold teachers, which answer only for rows that they have not seen
    files: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Entries of teachers that are files, by their number among the teachers of a row."""
    address: str | None = None
    other_teachers: int = 0  # of other data sets, which need room beside these
    student: str | None = None  # fingerprint of the student's tokenizer
    store: Path | None = None  # directory of their tables; None: they answer during the training
    of_files: Path = Path()  # directory of the tables of teachers that are files

    @property
    def per_row(self) -> int:
        """Number of teachers that answer each row."""
        return len(self.directories) // self.folds + len(self.files)

    @property
    def record(self) -> dict[str, Any]:
        """Manifest of all teachers in their order; files stand behind models of folds."""
        entries = list(self.manifest["teachers"])
        for number, entry in self.files.items():
            entries.insert(number if self.folds == 1 else len(entries), entry)
        return {**self.manifest, "teachers": entries}

    @property
    def mixed(self) -> bool:
        """Return True if a teacher has another tokenizer than the student and needs texts."""
        return any(ANSWERS_FOR in teacher for teacher in self.manifest["teachers"])

    @property
    def needs_pool(self) -> bool:
        """Return True if the teachers answer from actors during the training."""
        return self.store is None and self.settings.host == "actors" and bool(self.directories)

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
        from road_ray.distributed.teachers import start_teachers

        settings = self.settings
        resources = dict(settings.resources)
        return start_teachers(
            self.directories,
            self.task,
            teacher=self.options,
            replicas=settings.replicas,
            num_cpus=resources.pop("CPU", None),
            num_gpus=resources.pop("GPU", 0.0),
            resources=resources,
            beside=beside,
            other_teachers=self.other_teachers,
            timeout_seconds=settings.timeout_seconds,
        )

    def open(
        self,
        split: Split,
        actors: ActorEnsemble | None,
        *,
        tokenizer: PreTrainedTokenizerFast,
        worker: Worker,
        on_event: OnEvent,
    ) -> Ensemble:
        """Return the ensemble of a worker for the rows of ``split``; rank 0 compares a few answers
        with the models' first. ``actors`` are the driver's, if it started them.
        """
        texts, ensemble = self._texts(split, tokenizer), None
        if self.directories:
            rows = TaughtRows(split.features, texts, pad_id_of(tokenizer), worker)
            parts = self._by_fold(split, actors)
            members = [teachers._open(rows, mask, some, on_event) for teachers, some, mask in parts]
            ensemble = members[0]
            if self.folds > 1:
                ensemble = OutOfFoldEnsemble(members, row_folds(split, self.folds))
            ensemble = ensemble if texts is None else WithTexts(ensemble, texts)
        if self.files or ensemble is None:
            features = texts.features if texts else row_features(split, tokenizer, self.data)
            return WithAnswerFiles(ensemble, self._tables_of_files(), split, features)
        return ensemble

    def label(
        self,
        split: Split,
        tokenizer: PreTrainedTokenizerFast,
        actors: ActorEnsemble | None = None,
    ) -> None:
        """Have the teachers answer the rows of ``split`` that have no answer in their tables: all
        teachers every row, those of folds the rows that they have not seen. ``actors`` are the
        caller's, if it has started them.
        """
        if not self.directories:
            return
        texts = self._texts(split, tokenizer)
        rows = TaughtRows(split.features, texts, pad_id_of(tokenizer), Worker.alone())
        for teachers, some, mask in self._by_fold(split, actors):
            teachers._label(rows, mask, some)

    def read_files(self, split: Split) -> list[Callable[[], None]]:
        """Read the files of answers, and return what writes their answers to the tables. Raises
        ``DataError`` for a file that does not fit the data, and for rows that have neither an
        answer nor a label.
        """
        tables = self._tables_of_files()
        files = [(entry["directory"], tables[number]) for number, entry in self.files.items()]
        alone = not self.directories
        return read_files(files, split, self.data, self.settings.label_map, alone=alone)

    def _tables_of_files(self) -> dict[int, TeacherTables]:
        return {n: TeacherTables(self.of_files, x, self.task) for n, x in self.files.items()}

    def _texts(self, split: Split, tokenizer: PreTrainedTokenizerFast) -> RowTexts | None:
        """Return the texts of the rows, if a teacher needs them."""
        if not self.mixed:
            return None
        return RowTexts(split, row_features(split, tokenizer, self.data))

    def _by_fold(
        self, split: Split, actors: ActorEnsemble | None
    ) -> Iterator[tuple[Teachers, ActorEnsemble | None, NDArray[np.bool_]]]:
        """Yield the teachers of each fold, their actors and the rows that they answer."""
        if self.folds == 1:
            yield self, actors, np.ones(len(split.features), np.bool_)
            return
        folds = row_folds(split, self.folds)
        size = len(self.directories) // self.folds
        for fold in range(self.folds):
            members = range(fold * size, (fold + 1) * size)
            yield self._some(members), actors and actors.part(members), folds == fold

    def _some(self, members: Sequence[int]) -> Teachers:
        manifest = [self.manifest["teachers"][member] for member in members]
        return replace(
            self,
            folds=1,
            directories=[self.directories[member] for member in members],
            manifest={**self.manifest, "teachers": manifest},
        )

    def _open(
        self,
        rows: TaughtRows,
        mask: NDArray[np.bool_],
        actors: ActorEnsemble | None,
        on_event: OnEvent,
    ) -> Ensemble:
        device = rows.worker.device
        if self.store is not None:
            path: str | None = "its table"
            ensemble: Ensemble = StoredEnsemble.open(self.store, self.manifest, self.task)
        elif actors is not None:
            path, ensemble = "its actor", actors
            actors.on_event = on_event
        else:
            ensemble = LocalEnsemble.load(self.directories, self.task, self.options, device)
            # What sets them apart from the reference, which is loaded in the same way otherwise.
            path = "torch.compile" if self.settings.torch_compile else None
            path = "int8" if self.settings.precision == "int8" else path
        if rows.worker.is_main and self.settings.check_parity and path is not None:
            few = np.flatnonzero(mask)
            few = few[np.linspace(0, len(few) - 1, min(_PARITY_ROWS, len(few))).astype(np.int64)]
            batch = rows.batch(few)
            answers = ensemble.gather(ensemble.submit(batch))
            differences = check_parity(
                batch, self.directories, self.task, path, answers, self.options, device
            )
            on_event(
                "teachers_proven",
                rows=len(few),
                precision=self.settings.precision,
                difference={path: max(differences)},
            )
        return ensemble

    def _label(
        self, rows: TaughtRows, mask: NDArray[np.bool_], actors: ActorEnsemble | None
    ) -> None:
        assert self.store is not None

        @contextmanager
        def live(members: Members) -> Iterator[Ensemble]:
            chosen = replace(self._some(members), other_teachers=0, store=None)
            with ExitStack() as stack:
                started = actors and actors.part(members)
                if actors is None and self.settings.host == "actors":
                    stack.enter_context(connected(self.address))
                    started = stack.enter_context(chosen.start_pool(beside=0))
                yield chosen._open(rows, mask, started, lambda *_, **__: None)

        features = rows.features
        numbers, lengths = np.flatnonzero(mask), features.lengths * features.choices
        ordered = numbers[np.argsort(lengths[numbers], kind="stable")]
        cuts = token_budget_cuts(lengths[ordered], _GROUP_TOKENS, _GROUP_ROWS)
        # Rows of similar length together, the longest first: they need the most memory.
        groups = np.split(ordered, cuts)[::-1] if len(ordered) else []
        StoredEnsemble.open(self.store, self.manifest, self.task).label(
            lambda: map(rows.batch, groups), live
        )


@dataclass(frozen=True)
class TaughtRows:
    """Rows of a data set as its teachers are asked for them."""

    features: Features
    texts: RowTexts | None
    pad_id: int
    worker: Worker

    def batch(self, numbers: Longs) -> dict[str, Any]:
        """Return the batch of some rows."""
        batch: dict[str, Any] = {**pad(self.features, numbers, pad_id=self.pad_id)}
        if self.texts is None:
            return batch
        return batch | self.texts.of(numbers, batch["input_ids"].shape[-1])


@dataclass(frozen=True)
class TaughtStream:
    """Stream of batches with the answers of their data set's teachers."""

    teachers: Teachers
    stream: BatchStream
    ensemble: Ensemble
    rule: Rule
    one_of_several: bool

    def since(self, number: int) -> Iterator[Batch]:
        """Yield batches ``number``, ``number + 1``, ...; their statistics are ``teachers/right_0``
        to ``right_M``, and ``teachers/<data set>/right_0`` of one of several data sets.
        """
        settings = self.teachers.settings
        batches = annotate(
            self.stream.since(number),
            self.ensemble,
            self.rule,
            settings.lookahead,
            each=settings.average_loss,
        )
        if not self.one_of_several:
            yield from batches
            return
        prefix = f"teachers/{self.stream.name}/"
        for batch in batches:
            stats = {key.replace("teachers/", prefix, 1): x for key, x in batch["stats"].items()}
            yield {**batch, "stats": stats}


def used_weighting(weighting: WeightingConfig, num_teachers: int) -> WeightingConfig:
    """Return the configuration with the rule for rows with ``num_teachers`` teachers."""
    return weighting.model_copy(update={"rule": weighting.rule or default_rule(num_teachers)})


def weighting_rule(
    weighting: WeightingConfig, temperature: float = 1.0, *, num_teachers: int
) -> Rule:
    """Return the rule for rows with ``num_teachers`` teachers, with the options that it takes."""
    settings = to_dict(used_weighting(weighting, num_teachers)) | {"temperature": temperature}
    name = settings.pop("rule")
    return resolve(name, **{key: settings[key] for key in options_of(name) if key in settings})


# Settings of the distillation in the record and the card of the model.
_CARD_SETTINGS = ("kd_weight", "schedule", "temperature", "average_loss", "matching")


def record_teachers(config: TrainConfig, teachers: Mapping[str, Teachers]) -> None:
    """Record the teachers of a run that begins; a resumed one has the same, by its checkpoint."""
    path = config.run_dir / "teachers.json"
    if teachers and not (path.is_file() and has_checkpoints(config.run_dir / "checkpoints")):
        write_json_atomic(path, _manifest(config, teachers))


def lineage(
    config: TrainConfig, teachers: Mapping[str, Teachers]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the teachers for the record of the model, and the identity of a run with them."""
    if not teachers:
        return {}, {}
    several = isinstance(config, MultitaskConfig)
    most = max(teachers.values(), key=lambda found: found.per_row)
    settings = to_dict(most.settings)
    record = {
        "distillation": {name: settings[name] for name in _CARD_SETTINGS if name in settings},
        "weighting": to_dict(used_weighting(most.weighting, most.per_row)),
        "teachers": [
            teacher | ({"dataset": name} if several else {})
            for name, found in teachers.items()
            for teacher in found.record["teachers"]
        ],
    }
    identity = identity_of(teachers=identity_only(_manifest(config, teachers)))
    if not several and most.folds > 1:
        identity |= identity_of(folds=most.folds)
    return record, identity


def _manifest(config: TrainConfig, teachers: Mapping[str, Teachers]) -> dict[str, Any]:
    """Return the manifest of the teachers of a run; a mixture has one of each data set."""
    manifests = {name: found.record for name, found in teachers.items()}
    if isinstance(config, MultitaskConfig):
        return {"datasets": manifests}
    (manifest,) = manifests.values()
    return manifest
