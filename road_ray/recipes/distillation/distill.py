"""Distillation: a student learns from labels and from the weighted logits of an ensemble, computed
during the training.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from road_ray.config import override, to_dict
from road_ray.data.batching import Batch
from road_ray.data.features.examples_and_features import UNKNOWN
from road_ray.data.load_split import find_dataset, training_tokenizer
from road_ray.data.mixing import accumulated, with_fraction_done
from road_ray.data.model_files.locate_model import locate_model
from road_ray.data.tokenizer import pad_id_of
from road_ray.distillation.ensemble.annotate import annotate
from road_ray.distillation.hidden_state_matching import HiddenStatesTeacher, StateMatching
from road_ray.distillation.schedule import schedule
from road_ray.distillation.teacher_checks import LABEL_MAP, check_teacher
from road_ray.distillation.teacher_identity import (
    ANSWERS_FOR,
    fingerprint_tokenizer,
    reads_other_tokens,
)
from road_ray.distillation.teacher_manifest import teacher_manifest
from road_ray.distributed.connection import connected
from road_ray.distributed.train.launch import launch_run
from road_ray.errors import CheckpointError, ConfigError
from road_ray.models.encoder import model_directory
from road_ray.models.multitask import MultitaskModel
from road_ray.objectives.distilled import Distilled
from road_ray.objectives.intermediate import IntermediateDistilled
from road_ray.recipes.config import IN_THIS_PROCESS
from road_ray.recipes.distillation.born_again import born_again
from road_ray.recipes.distillation.config import DistillationConfig, DistillConfig
from road_ray.recipes.distillation.locate_teachers import teacher_directories
from road_ray.recipes.distillation.out_of_fold_teachers import (
    label_rows,
    open_ensemble,
    warn_of_seen_rows,
)
from road_ray.recipes.distillation.teacher_list import num_folds
from road_ray.recipes.distillation.teacher_record import record_teachers, recorded_teachers
from road_ray.recipes.distillation.teacher_source import TeacherSource
from road_ray.recipes.distillation.text_truncation import check_truncation
from road_ray.recipes.distillation.weighting_rule import used_weighting, weighting_rule
from road_ray.recipes.finetuning.finetune import (
    Prepared,
    check_student,
    fit,
    kept_layers,
    prepare,
    training_split,
)
from road_ray.recipes.metric_names import check_stopping_metric
from road_ray.recipes.preflight_checks import require_init, require_plain_head
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.training.loop import identity_of
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.run_context import RunContext
from road_ray.training.worker import Worker

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from road_ray.distributed.teachers.client import ActorEnsemble


_log = logging.getLogger(__name__)
# Settings of the distillation in the record and the card of the model.
_CARD_SETTINGS = ("kd_weight", "schedule", "temperature", "average_loss", "matching")


def distill(
    config: DistillConfig,
    ensemble: ActorEnsemble | None = None,
    context: RunContext | None = None,
) -> Run:
    """Train and evaluate a student. The run starts and stops the teachers, unless ``ensemble`` is
    given: then its owner stops them, and ``distillation.teachers`` may be omitted, except for
    out-of-fold teachers, whose ``teachers.json`` records which rows each has not seen.
    """
    if ensemble is not None:
        config = _with_teachers(config, list(ensemble.directories))
    if done := load_finished_run(config):
        return done
    if config.distillation.generations > 1:
        return born_again(config, distill, ensemble, context)
    return _run(config, ensemble, context)


def _with_teachers(config: DistillConfig, directories: list[str]) -> DistillConfig:
    """Return the configuration with the teachers of an ensemble. Raises ``ConfigError`` if it
    names out-of-fold teachers that differ from them.
    """
    if num_folds(config.distillation.teachers) == 1:
        return override(config, {"distillation.teachers": directories})
    listed = [Path(place).resolve() for place in teacher_directories(config.distillation)]
    if listed != [Path(locate_model(directory)).resolve() for directory in directories]:
        raise ConfigError(
            f"distillation.teachers = {config.distillation.teachers[0]}: names {len(listed)} "
            f"teachers of folds, and the ensemble has {len(directories)} others or in another "
            "order\n"
            "  fix: start the ensemble with the directories of that list, fold after fold"
        )
    return config


def _run(config: DistillConfig, ensemble: ActorEnsemble | None, context: RunContext | None) -> Run:
    require_plain_head(config.data)
    check_student(config)
    check_stopping_metric("distill", config)
    directories = teacher_directories(config.distillation)
    student = check(config, directories)
    if num_folds(config.distillation.teachers) > 1:
        warn_of_seen_rows(directories, config.data.dataset)
    teacher_source = teacher_source_of(config, directories, student)
    if teacher_source.mixed:
        tokenizer = _tokenizer(config)
        split = training_split(config.data, tokenizer)
        check_truncation(teacher_source, split, tokenizer, config.data)
    keep = config.training.kept_at_end()
    with open_run_directory(config, keep_checkpoints=keep) as run_dir, ExitStack() as stack:
        record_teachers(run_dir, teacher_source.manifest, teacher_source.settings)
        if context is not None and context.plan_only:  # labelling is no step
            teacher_source = replace(teacher_source, store=None)
        if teacher_source.store is not None:
            _label(config, teacher_source, ensemble)
            ensemble = None
        if ensemble is None and teacher_source.needs_pool:
            stack.enter_context(connected(config.address))
            ensemble = stack.enter_context(teacher_source.start_pool(config.workers))
        metrics = launch_run(
            main, config, teacher_source, ensemble, context=context, directory=run_dir
        )
    return Run(run_dir, metrics)


def teacher_source_of(config: DistillConfig, directories: list[str], student: str) -> TeacherSource:
    """Return the source of the teachers' answers."""
    _, task = find_dataset(config.data.dataset, config.data)
    settings = config.distillation
    manifest = teacher_manifest(directories, task, settings.label_map, settings.precision, student)
    return TeacherSource(
        settings,
        task,
        directories,
        manifest,
        config.address,
        config.workers,
        student=student,
        store=settings.tables(config.run_dir),
    )


def _tokenizer(config: DistillConfig) -> PreTrainedTokenizerFast:
    directory = model_directory(require_init(config.init))
    return training_tokenizer(directory, [config.data.dataset], config.data)


def fill_store(config: DistillConfig) -> None:
    """Have teachers in this process answer all training rows that have no answer in
    ``distillation.store``.
    """
    label_training_rows(override(config, {"distillation.host": "process", **IN_THIS_PROCESS}))


def label_training_rows(config: DistillConfig) -> None:
    """Have the teachers answer all training rows that have no answer in their tables."""
    directories = teacher_directories(config.distillation)
    _label(config, teacher_source_of(config, directories, check(config, directories)))


@contextmanager
def started_teachers(config: DistillConfig) -> Iterator[ActorEnsemble]:
    """Start the teachers in actors of the connected cluster and stop them on exit."""
    directories = teacher_directories(config.distillation)
    source = teacher_source_of(config, directories, check(config, directories))
    with source.start_pool(config.workers) as ensemble:
        yield ensemble


def _label(
    config: DistillConfig, source: TeacherSource, actors: ActorEnsemble | None = None
) -> None:
    tokenizer = _tokenizer(config)
    split = training_split(config.data, tokenizer)
    check_truncation(source, split, tokenizer, config.data)
    count = num_folds(config.distillation.teachers)
    label_rows(source, count, split, tokenizer=tokenizer, source=config.data, actors=actors)


def main(
    config: DistillConfig,
    worker: Worker,
    context: RunContext,
    teacher_source: TeacherSource,
    actors: ActorEnsemble | None,
) -> dict[str, float]:
    """Distil on one worker; return the metrics. Without ``actors`` it hosts the teachers itself."""
    prepared = prepare(config, worker)
    settings = config.distillation
    if worker.leads:
        _log.info("%s", summary(config, prepared, teacher_source.manifest))
    objective = objective_of(settings, prepared.model, teacher_source.directories)
    num_teachers = settings.teachers_per_row
    weigh = weighting_rule(config.weighting, settings.temperature, num_teachers=num_teachers)
    settings_dict = to_dict(settings)
    manifest, first_identity = recorded_teachers(config.run_dir)
    prepared.identity.update(identity_of(teachers=first_identity))
    if (folds := num_folds(settings.teachers)) > 1:
        prepared.identity.update(identity_of(folds=folds))
    prepared.lineage.update(
        distillation={name: settings_dict[name] for name in _CARD_SETTINGS},
        weighting=to_dict(used_weighting(config.weighting, num_teachers)),
        teachers=manifest["teachers"],
    )

    with (
        Journal(config.run_dir, console="quiet", enabled=worker.leads) as log,
        open_ensemble(
            teacher_source,
            folds,
            prepared.split,
            actors,
            pad_id=pad_id_of(prepared.tokenizer),
            device=worker.device,
            on_event=log.event,
            leads=worker.leads,
            tokenizer=prepared.tokenizer,
            source=config.data,
        ) as ensemble,
    ):

        def steps(start: int) -> Iterator[list[Batch]]:
            passes = config.training.passes
            batches = annotate(
                prepared.stream.since(start * passes),
                ensemble,
                weigh,
                settings.lookahead,
                each=settings.average_loss,
            )
            all_steps = accumulated(batches, passes)
            return with_fraction_done(all_steps, start=start, total=prepared.total_steps)

        return fit(config, worker, context, prepared, objective, steps)


def summary(config: DistillConfig, prepared: Prepared, manifest: Mapping[str, Any]) -> str:
    """Return the student, its rows and its teachers in one line."""
    parts, kept = [], kept_layers(config)
    if kept is not None:
        parts.append(f"student: layers {', '.join(map(str, kept))} of init")
    features = prepared.split.features
    unknown = next(iter(features.gold.values())) == UNKNOWN
    if unknown.ndim == 1 and len(unknown) == len(features) and unknown.any():
        unlabelled = len(np.unique(features.example[unknown]))
        labelled = len(np.unique(features.example)) - unlabelled
        parts.append(f"{labelled} labelled + {unlabelled} unlabelled rows")
    settings, teachers = config.distillation, manifest["teachers"]
    rule = used_weighting(config.weighting, settings.teachers_per_row).rule
    folds = num_folds(settings.teachers)
    each = f", {settings.teachers_per_row} for each row" if folds > 1 else ""
    parts.append(f"{len(teachers)} teachers{each}, rule {rule}")
    if others := [str(n) for n, teacher in enumerate(teachers) if ANSWERS_FOR in teacher]:
        parts.append(f"with another tokenizer (they read texts): teacher {', '.join(others)}")
    return "; ".join(parts)


def objective_of(
    settings: DistillationConfig, model: MultitaskModel, directories: list[str]
) -> Distilled:
    """Return the student's objective: the teachers' logits, and the hidden states of one teacher if
    ``matching`` is enabled.
    """
    shared: dict[str, Any] = {
        "kd_weight": schedule(settings.schedule, settings.kd_weight),
        "temperature": settings.temperature,
        "one_dataset": True,
    }
    matching = settings.matching
    if not matching.enabled:
        return Distilled(model, **shared)
    if matching.teacher >= len(directories):
        raise ConfigError(
            f"distillation.matching.teacher = {matching.teacher}\n"
            f"  allowed: 0 to {len(directories) - 1}, the number of one of distillation.teachers"
        )
    attentions = matching.attention_weight > 0
    states = StateMatching(
        model.encoder,
        HiddenStatesTeacher(directories[matching.teacher], attentions=attentions),
        layers=matching.layers,
        hidden_weight=matching.hidden_weight,
        attention_weight=matching.attention_weight,
    )
    return IntermediateDistilled(model, states, **shared)


def check(config: DistillConfig, directories: list[str]) -> str:
    """Check the teachers and return the fingerprint of the student's tokenizer. Raises
    ``CheckpointError`` for a teacher whose tokenizer, labels or head do not fit, and for hidden
    state matching with a teacher that has another tokenizer.
    """
    _, task = find_dataset(config.data.dataset, config.data)
    tokenizer = _tokenizer(config)
    for directory in directories:
        check_teacher(directory, task, tokenizer, config.distillation.label_map, LABEL_MAP)
    student, matching = fingerprint_tokenizer(tokenizer), config.distillation.matching
    if matching.enabled and matching.teacher < len(directories):
        states_of = directories[matching.teacher]
        if reads_other_tokens(states_of, student):
            raise CheckpointError(
                f"distillation.matching.teacher = {matching.teacher} ({states_of}): has another "
                "tokenizer than the student, so its states are of other tokens\n"
                "  allowed: a teacher with the student's tokenizer; answers of any teacher\n"
                "  fix: distillation.matching.teacher=NUMBER, or leave distillation.matching out"
            )
    return student
