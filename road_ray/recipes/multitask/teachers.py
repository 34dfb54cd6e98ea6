"""Teachers in a mixture: a data set has its own, or none and learns from gold alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from road_ray.config import to_dict
from road_ray.data.batching import Batch, BatchStream
from road_ray.data.loading import Split, find_dataset, load_split
from road_ray.data.mixing import Stream, with_fraction_done
from road_ray.data.tokenizer import load_tokenizer
from road_ray.distillation.ensemble.base import Ensemble, annotate
from road_ray.distillation.ensemble.row_texts import RowTexts
from road_ray.distillation.teacher_identity import LABEL_MAP, check_teacher, fingerprint_tokenizer
from road_ray.distillation.teacher_manifest import teacher_manifest
from road_ray.distillation.weighting import Rule
from road_ray.distributed.connection import connected
from road_ray.errors import CheckpointError, ConfigError, nearest
from road_ray.models.encoder import model_directory
from road_ray.recipes.distillation.config import TeachingConfig
from road_ray.recipes.distillation.out_of_fold import needs_pool, open_ensemble, texts_of
from road_ray.recipes.distillation.teacher_list import num_folds
from road_ray.recipes.distillation.teacher_pool import (
    locate_teachers,
    recorded_teachers,
    start_teacher_pool,
    weighting_rule,
)
from road_ray.recipes.distillation.teacher_source import (
    TeacherSource,
    Tell,
    flush_store_before_checkpoint,
)
from road_ray.recipes.distillation.truncation import check_truncation
from road_ray.recipes.multitask.config import MultitaskConfig
from road_ray.recipes.validation import require_init
from road_ray.training.worker import Worker

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from road_ray.distributed.teachers.client import ActorEnsemble

_log = logging.getLogger(__name__)
_KEY = "distillation.teachers"
_TOLD = ("kd_weight", "schedule", "temperature", "average_loss")  # in the model's card


def teacher_sources(config: MultitaskConfig) -> dict[str, TeacherSource]:
    """Return the teachers of each data set that has some. Raises ``ConfigError`` or
    ``CheckpointError`` for one that is named in vain, forgotten, or does not fit.
    """
    settings, places = config.distillation, teachers_by_dataset(config)
    _check_unlabelled(config, places)
    if not places:
        return {}
    alone = [name for name in config.data.datasets if name not in places]
    counts = ", ".join(f"{name} {len(named)}" for name, named in places.items())
    _log.info("teachers: %s; by gold alone: %s", counts, ", ".join(alone) or "none")
    tokenizer = load_tokenizer(model_directory(require_init(config.init)))
    student = fingerprint_tokenizer(tokenizer)
    total = sum(map(len, places.values()))
    found = {}
    for name, named in places.items():
        _, task = find_dataset(name, config.data)
        try:
            for directory in named:
                check_teacher(directory, task, tokenizer, settings.label_map, LABEL_MAP)
        except CheckpointError as error:
            raise CheckpointError(f"{_KEY}.{name}: {error}") from error
        found[name] = TeacherSource(
            settings,
            task,
            named,
            teacher_manifest(named, task, settings.label_map, settings.precision, student),
            config.address,
            config.workers,
            others=settings.replicas * (total - len(named)),
            student=student,
        )
        if found[name].mixed:
            split = _training_split(config, name, tokenizer)
            check_truncation(found[name], split, tokenizer, config.data)
    return found


def _check_unlabelled(config: MultitaskConfig, taught: Mapping[str, object]) -> None:
    """Raise ``ConfigError`` for rows without labels that no teacher teaches."""
    for name in config.data.unlabelled:
        if name not in taught:
            raise ConfigError(
                f"data.unlabelled.{name}: nobody teaches rows without labels there\n"
                f"  allowed: data sets with teachers: {', '.join(taught) or 'none'}\n"
                f"  fix: {_KEY}.{name}=DIRECTORY, or leave data.unlabelled.{name} out"
            )


def teachers_by_dataset(config: MultitaskConfig) -> dict[str, list[str]]:
    """The directories of every data set that has teachers."""
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
            f"makes one), or {_KEY}.{forgotten[0]}=[] to learn it from gold alone\n"
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


@contextmanager
def start_teacher_pools(
    config: MultitaskConfig, asked: Mapping[str, TeacherSource]
) -> Iterator[dict[str, ActorEnsemble]]:
    """A pool for each data set whose teachers the driver must start, as long as the run."""

    def rows(name: str) -> tuple[Split, RowTexts | None]:
        tokenizer = load_tokenizer(model_directory(config.init))
        split = _training_split(config, name, tokenizer)
        return split, texts_of(asked[name], split, tokenizer, config.data)

    settings = config.distillation
    wanted = {
        name: teacher_source
        for name, teacher_source in asked.items()
        if needs_pool(teacher_source, num_folds(settings.of(name)), partial(rows, name))
    }
    total = sum(len(teacher_source.directories) for teacher_source in wanted.values())
    with ExitStack() as stack:
        if wanted:
            stack.enter_context(connected(config.address))
        started = {}
        for name, teacher_source in wanted.items():
            others = settings.replicas * (total - len(teacher_source.directories))
            one = start_teacher_pool(
                settings,
                teacher_source.task,
                teacher_source.directories,
                beside=config.workers,
                others=others,
                student=teacher_source.student,
            )
            started[name] = stack.enter_context(one)
        yield started


@dataclass(frozen=True)
class AnnotatedStream:
    """A stream whose batches bring what the teachers of their data set say."""

    stream: BatchStream
    ensemble: Ensemble
    weigh: Rule
    settings: TeachingConfig

    def since(self, number: int) -> Iterator[Batch]:
        """Batches ``number``, ``number + 1``, ...; the journal reads
        ``teachers/<data set>/right_0`` to ``right_M``.
        """
        own = f"teachers/{self.stream.name}/"
        batches = annotate(
            self.stream.since(number),
            self.ensemble,
            self.weigh,
            self.settings.lookahead,
            each=self.settings.average_loss,
        )
        for batch in batches:
            stats = {key.replace("teachers/", own, 1): x for key, x in batch["stats"].items()}
            yield {**batch, "stats": stats}


@dataclass(frozen=True)
class AnnotatedMixture:
    """The streams of a mixture, those of data sets with teachers annotated."""

    streams: Mapping[str, Stream]
    ensembles: tuple[Ensemble, ...] = ()

    def attended(
        self, steps: Iterator[list[Batch]], *, start: int, total: int, every: int
    ) -> Iterator[list[Batch]]:
        """The steps as a student needs them: batches know how much of the training is done, and
        what the teachers said is on the disk before a checkpoint.
        """
        if not self.ensembles:
            return steps
        timely = with_fraction_done(steps, start=start, total=total)
        return flush_store_before_checkpoint(timely, *self.ensembles, start=start, every=every)


@contextmanager
def annotate_mixture(
    config: MultitaskConfig,
    asked: Mapping[str, TeacherSource],
    actors: Mapping[str, ActorEnsemble],
    splits: Mapping[str, Split],
    streams: Mapping[str, BatchStream],
    *,
    worker: Worker,
    tell: Tell,
) -> Iterator[AnnotatedMixture]:
    """Yield a worker's mixture with teachers; all ensembles are compared before the first step."""
    settings = config.distillation
    tokenizer = load_tokenizer(model_directory(config.init)) if asked else None
    with ExitStack() as stack:
        taught = {
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
                        tell=partial(tell, dataset=name),
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
            for name, teacher_source in asked.items()
        }
        yield AnnotatedMixture(
            {**streams, **taught}, tuple(one.ensemble for one in taught.values())
        )


def teacher_lineage(config: MultitaskConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the teachers for the record of the model, and the identity of those that it began
    with.
    """
    manifest, began_with = recorded_teachers(config.run_dir)
    told = to_dict(config.distillation)
    teachers = [
        one | {"dataset": name}
        for name, of_one in manifest["datasets"].items()
        for one in of_one["teachers"]
    ]
    facts = {
        "distillation": {name: told[name] for name in _TOLD},
        "weighting": to_dict(config.weighting),
        "teachers": teachers,
    }
    return facts, began_with
