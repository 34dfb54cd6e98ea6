"""Teachers in a mixture: each data set has its own, or none and learns from its labels only."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from road_ray.config import to_dict
from road_ray.data.batching import Batch, BatchStream
from road_ray.data.load_split import Split, find_dataset, load_split, training_tokenizer
from road_ray.data.mixing import Stream, with_fraction_done
from road_ray.distillation.ensemble.annotate import annotate
from road_ray.distillation.ensemble.protocol import Ensemble
from road_ray.distillation.teacher_checks import LABEL_MAP, check_teacher
from road_ray.distillation.teacher_identity import fingerprint_tokenizer
from road_ray.distillation.teacher_manifest import teacher_manifest
from road_ray.distillation.weighting import Rule
from road_ray.distributed.connection import connected
from road_ray.errors import CheckpointError, ConfigError, nearest
from road_ray.models.encoder import model_directory
from road_ray.recipes.distillation.config import TeachingConfig
from road_ray.recipes.distillation.locate_teachers import locate_teachers
from road_ray.recipes.distillation.out_of_fold_teachers import label_rows, open_ensemble
from road_ray.recipes.distillation.teacher_list import num_folds
from road_ray.recipes.distillation.teacher_record import recorded_teachers
from road_ray.recipes.distillation.teacher_source import OnEvent, TeacherSource
from road_ray.recipes.distillation.text_truncation import check_truncation
from road_ray.recipes.distillation.weighting_rule import weighting_rule
from road_ray.recipes.multitask.config import MultitaskConfig
from road_ray.recipes.preflight_checks import require_init
from road_ray.training.worker import Worker

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from road_ray.distributed.teachers.client import ActorEnsemble

_log = logging.getLogger(__name__)
_KEY = "distillation.teachers"
_CARD_SETTINGS = ("kd_weight", "schedule", "temperature", "average_loss")


def teacher_sources(config: MultitaskConfig) -> dict[str, TeacherSource]:
    """Return the teachers of each data set that has some. Raises ``ConfigError`` for a data set
    that is not in the mixture or lacks required teachers, ``CheckpointError`` for a teacher that
    does not fit.
    """
    settings, places = config.distillation, teachers_by_dataset(config)
    _check_unlabelled(config, places)
    if not places:
        return {}
    alone = [name for name in config.data.datasets if name not in places]
    counts = ", ".join(f"{name} {len(teachers)}" for name, teachers in places.items())
    _log.info("teachers: %s; labels only: %s", counts, ", ".join(alone) or "none")
    tokenizer = _tokenizer(config)
    student = fingerprint_tokenizer(tokenizer)
    total = sum(map(len, places.values()))
    sources = {}
    for name, directories in places.items():
        _, task = find_dataset(name, config.data)
        try:
            for directory in directories:
                check_teacher(directory, task, tokenizer, settings.label_map, LABEL_MAP)
        except CheckpointError as error:
            raise CheckpointError(f"{_KEY}.{name}: {error}") from error
        sources[name] = TeacherSource(
            settings,
            task,
            directories,
            teacher_manifest(directories, task, settings.label_map, settings.precision, student),
            config.address,
            config.workers,
            other_teachers=settings.replicas * (total - len(directories)),
            student=student,
            store=settings.tables(config.run_dir),
        )
        if sources[name].mixed:
            split = _training_split(config, name, tokenizer)
            check_truncation(sources[name], split, tokenizer, config.data)
    return sources


def _check_unlabelled(config: MultitaskConfig, with_teachers: Collection[str]) -> None:
    """Raise ``ConfigError`` for rows without labels of a data set without teachers."""
    for name in config.data.unlabelled:
        if name not in with_teachers:
            raise ConfigError(
                f"data.unlabelled.{name}: rows without labels need teachers, and {name} has none\n"
                f"  allowed: data sets with teachers: {', '.join(with_teachers) or 'none'}\n"
                f"  fix: {_KEY}.{name}=DIRECTORY, or leave data.unlabelled.{name} out"
            )


def teachers_by_dataset(config: MultitaskConfig) -> dict[str, list[str]]:
    """Return the directories of the teachers by data set, for data sets that have some."""
    settings, names = config.distillation, config.data.datasets
    for name in settings.teachers:
        if name not in names:
            near = nearest(name, names)
            raise ConfigError(
                f"{_KEY}.{name}: no data set of the mix"
                f"{f'; did you mean {near!r}?' if near else ''}\n"
                f"  allowed: {', '.join(names)}\n  nothing was started"
            )
    forgotten = [name for name in names if name not in settings.teachers]
    if settings.num_teachers is not None and forgotten:
        raise ConfigError(
            f"{_KEY} names none for {', '.join(forgotten)}\n"
            f"  allowed: distillation.num_teachers = {settings.num_teachers} for every data set\n"
            f"  fix: {_KEY}.{forgotten[0]}=DIRECTORY (`road finetune data.dataset={forgotten[0]}` "
            f"makes one), or {_KEY}.{forgotten[0]}=[] to learn it from labels only\n"
            "  nothing was started"
        )
    return {
        name: locate_teachers(settings.of(name), settings.num_teachers, f"{_KEY}.{name}")
        for name in names
        if settings.of(name)
    }


def _training_split(
    config: MultitaskConfig, name: str, tokenizer: PreTrainedTokenizerFast
) -> Split:
    unlabelled = config.data.unlabelled.get(name, ())
    return load_split(name, "train", config.data, tokenizer, unlabelled=unlabelled)


def _tokenizer(config: MultitaskConfig) -> PreTrainedTokenizerFast:
    directory = model_directory(require_init(config.init))
    return training_tokenizer(directory, config.data.datasets, config.data)


def label_mixture(config: MultitaskConfig, sources: Mapping[str, TeacherSource]) -> None:
    """Have the teachers of each data set answer its training rows that have no answer in their
    tables.
    """
    for name, source in sources.items():
        if source.store is not None:
            tokenizer = _tokenizer(config)
            label_rows(
                source,
                num_folds(config.distillation.of(name)),
                _training_split(config, name, tokenizer),
                tokenizer=tokenizer,
                source=config.data,
            )


@contextmanager
def start_teacher_pools(
    config: MultitaskConfig, sources: Mapping[str, TeacherSource]
) -> Iterator[dict[str, ActorEnsemble]]:
    """Start a pool for each data set whose teachers the driver must start; stop them on exit."""
    needed = {name: source for name, source in sources.items() if source.needs_pool}
    with ExitStack() as stack:
        if needed:
            stack.enter_context(connected(config.address))
        yield {
            name: stack.enter_context(source.start_pool(config.workers))
            for name, source in needed.items()
        }


@dataclass(frozen=True)
class AnnotatedStream:
    """Stream of batches with the answers of their data set's teachers."""

    stream: BatchStream
    ensemble: Ensemble
    weigh: Rule
    settings: TeachingConfig

    def since(self, number: int) -> Iterator[Batch]:
        """Yield batches ``number``, ``number + 1``, ...; their statistics are
        ``teachers/<data set>/right_0`` to ``right_M``.
        """
        prefix = f"teachers/{self.stream.name}/"
        batches = annotate(
            self.stream.since(number),
            self.ensemble,
            self.weigh,
            self.settings.lookahead,
            each=self.settings.average_loss,
        )
        for batch in batches:
            stats = {key.replace("teachers/", prefix, 1): x for key, x in batch["stats"].items()}
            yield {**batch, "stats": stats}


@dataclass(frozen=True)
class AnnotatedMixture:
    """Streams of a mixture; those of data sets with teachers are annotated."""

    streams: Mapping[str, Stream]
    taught: bool  # a data set has teachers

    def prepared_steps(
        self, steps: Iterator[list[Batch]], *, start: int, total: int
    ) -> Iterator[list[Batch]]:
        """Return the steps, with teachers with the fraction of the training that is done in each
        batch.
        """
        return with_fraction_done(steps, start=start, total=total) if self.taught else steps


@contextmanager
def annotate_mixture(
    config: MultitaskConfig,
    sources: Mapping[str, TeacherSource],
    actors: Mapping[str, ActorEnsemble],
    splits: Mapping[str, Split],
    streams: Mapping[str, BatchStream],
    *,
    worker: Worker,
    on_event: OnEvent,
) -> Iterator[AnnotatedMixture]:
    """Yield a worker's mixture with teachers; the parity of all ensembles is checked before the
    first step.
    """
    settings = config.distillation
    tokenizer = _tokenizer(config) if sources else None
    with ExitStack() as stack:
        annotated = {
            name: AnnotatedStream(
                streams[name],
                stack.enter_context(
                    open_ensemble(
                        teacher_source,
                        num_folds(settings.of(name)),
                        splits[name],
                        actors.get(name),
                        pad_id=streams[name].pad_id,
                        device=worker.device,
                        on_event=partial(on_event, dataset=name),
                        leads=worker.leads,
                        tokenizer=tokenizer,
                        source=config.data,
                    )
                ),
                weighting_rule(
                    config.weighting,
                    settings.temperature,
                    num_teachers=len(teacher_source.directories) // num_folds(settings.of(name)),
                ),
                settings,
            )
            for name, teacher_source in sources.items()
        }
        yield AnnotatedMixture({**streams, **annotated}, taught=bool(annotated))


def teacher_lineage(config: MultitaskConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the teachers for the record of the model, and the identity of the run's first
    teachers.
    """
    manifest, first_identity = recorded_teachers(config.run_dir)
    settings_dict = to_dict(config.distillation)
    teachers = [
        teacher | {"dataset": name}
        for name, dataset_manifest in manifest["datasets"].items()
        for teacher in dataset_manifest["teachers"]
    ]
    facts = {
        "distillation": {name: settings_dict[name] for name in _CARD_SETTINGS},
        "weighting": to_dict(config.weighting),
        "teachers": teachers,
    }
    return facts, first_identity
