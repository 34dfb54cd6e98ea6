"""The supervised recipe: a run trains a model on a mixture, with teachers or without, then
evaluates and exports it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from road_ray.config import to_dict
from road_ray.config.identity import resume_identity
from road_ray.data.batching import Batch
from road_ray.data.features.examples_and_features import UNKNOWN
from road_ray.data.load_split import Split
from road_ray.data.mixing import Stream, with_fraction_done
from road_ray.data.row_limits import row_limits
from road_ray.distillation.hidden_state_matching import HiddenStatesTeacher, StateMatching
from road_ray.distillation.schedule import schedule
from road_ray.distillation.teacher_identity import ANSWERS_FOR
from road_ray.distributed.connection import connected
from road_ray.distributed.train.launch import launch_run
from road_ray.errors import ConfigError
from road_ray.evaluation.evaluate_split import evaluate_split
from road_ray.objectives.distilled import Distilled
from road_ray.objectives.intermediate import IntermediateDistilled
from road_ray.objectives.supervised import Supervised
from road_ray.recipes.distillation.config import DistillConfig
from road_ray.recipes.finetuning.config import FinetuneConfig
from road_ray.recipes.metric_names import check_stopping_metric
from road_ray.recipes.multitask.config import MultitaskConfig
from road_ray.recipes.run_directory.model_record import atomic_directory, write_model_record
from road_ray.recipes.run_directory.run import (
    Run,
    checkpoints,
    journal,
    open_run_directory,
    record_heads,
    record_truncated,
)
from road_ray.recipes.run_directory.trained_rows import trained_rows
from road_ray.recipes.train.find_teachers import (
    check_truncation,
    find_teachers,
    record_teachers,
    recorded_teachers,
)
from road_ray.recipes.train.mixture import Mixture, SupervisedConfig
from road_ray.recipes.train.prepare import Prepared, kept_layers, prepare, student_tokenizer
from road_ray.recipes.train.teachers import Teachers, used_weighting
from road_ray.recipes.train_dev_overlap import count_shared
from road_ray.training.loop import identity_of, train
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.run_context import RunContext, Training
from road_ray.training.worker import Worker

if TYPE_CHECKING:
    from road_ray.distributed.teachers.client import ActorEnsemble

_log = logging.getLogger(__name__)
# Settings of the distillation in the record and the card of the model.
_CARD_SETTINGS = ("kd_weight", "schedule", "temperature", "average_loss", "matching")


def run_training(
    config: SupervisedConfig,
    context: RunContext | None = None,
    actors: Mapping[str, ActorEnsemble] | None = None,
) -> Run:
    """Train, evaluate and export. The run starts and stops the teachers that answer from actors,
    unless ``actors`` has the ensemble of every data set: then their owner stops them.
    """
    check(config)
    teachers = find_teachers(config)
    rows = _rows_of_teachers(config, {n: t for n, t in teachers.items() if t.mixed})
    keep = config.training.kept_at_end()
    with open_run_directory(config, keep_checkpoints=keep) as directory, ExitStack() as stack:
        if teachers:
            settings = next(iter(teachers.values())).settings
            record_teachers(directory, _manifest(config, teachers), settings)
        if context is not None and context.plan_only:  # labelling is no step
            teachers = {name: replace(found, store=None) for name, found in teachers.items()}
        label_rows(config, teachers, rows, actors or {})
        started = {n: a for n, a in (actors or {}).items() if teachers[n].store is None}
        waiting = {n: t for n, t in teachers.items() if t.needs_pool and n not in started}
        if waiting:
            stack.enter_context(connected(config.address))
        for name, found in waiting.items():
            started[name] = stack.enter_context(found.start_pool(config.workers))
        metrics = launch_run(main, config, teachers, started, context=context, directory=directory)
    return Run(directory, metrics)


def check(config: SupervisedConfig) -> None:
    """Raise ``ConfigError`` for what can be known to be wrong before anything is read."""
    if isinstance(config, MultitaskConfig):
        if config.training.steps is None:
            raise ConfigError(
                "training.steps is not given\n  allowed: a number of updates, at least 1"
            )
        if (passes := config.training.passes) != 1:
            raise ConfigError(
                f"training.passes = {passes}: a step of `multitask` has mixing.passes\n"
                f"  fix: mixing.passes={passes}, or a larger data.batch_size"
            )
    Mixture.of(config).check()
    kept_layers(config)
    check_stopping_metric(
        "multitask" if isinstance(config, MultitaskConfig) else "finetune", config
    )


def _rows_of_teachers(
    config: SupervisedConfig, teachers: Mapping[str, Teachers]
) -> dict[str, tuple[Split, Any]]:
    """Return the training rows of data sets whose teachers read texts, and the tokenizer, once it
    is checked that no row is truncated.
    """
    rows = {}
    for name, found in teachers.items():
        tokenizer = student_tokenizer(config)
        rows[name] = Mixture.of(config).read(name, "train", tokenizer), tokenizer
        check_truncation(found, *rows[name])
    return rows


def label_rows(
    config: SupervisedConfig,
    teachers: Mapping[str, Teachers],
    rows: Mapping[str, tuple[Split, Any]],
    actors: Mapping[str, ActorEnsemble],
) -> None:
    """Have teachers with tables answer the training rows that have no answer there. ``rows`` are
    those that were read already.
    """
    for name, found in teachers.items():
        if found.store is not None:
            tokenizer = student_tokenizer(config)
            split, tokenizer = rows.get(name) or (
                Mixture.of(config).read(name, "train", tokenizer),
                tokenizer,
            )
            found.label(split, tokenizer, actors.get(name))


def label_training_rows(config: SupervisedConfig) -> None:
    """Have the teachers answer all training rows that have no answer in their tables."""
    teachers = find_teachers(config)
    mixed = {name: found for name, found in teachers.items() if found.mixed}
    label_rows(config, teachers, _rows_of_teachers(config, mixed), {})


def main(
    config: SupervisedConfig,
    worker: Worker,
    context: RunContext,
    teachers: Mapping[str, Teachers],
    actors: Mapping[str, ActorEnsemble],
) -> dict[str, float]:
    """Train on one worker. The leading worker then evaluates and exports the model and returns the
    metrics; other workers and plans return none. Teachers without ``actors`` are loaded here.
    """
    prepared = prepare(config, worker)
    mixture, total = prepared.mixture, prepared.total_steps
    record, identity = _lineage(config, teachers)
    figures: dict[str, float] = {}
    with journal(config, context, leads=worker.leads, total_steps=total) as log:
        record_heads(config, config.init, prepared.heads, log, context)
        record_truncated(prepared.splits.values(), log)
        streams: dict[str, Stream] = dict(prepared.streams)
        for name, found in teachers.items():
            split, several = prepared.splits[name], len(mixture.names) > 1
            if worker.leads:
                _log.info("%s", summary(config, split, found))
            ensemble = found.open(
                split,
                actors.get(name),
                tokenizer=prepared.tokenizer,
                worker=worker,
                on_event=partial(log.event, dataset=name) if several else log.event,
            )
            stream = prepared.streams[name]
            streams[name] = found.taught(stream, ensemble, one_of_several=several)

        def steps(start: int) -> Iterator[list[Batch]]:
            drawn = mixture.steps(prepared.splits, streams, start)
            return with_fraction_done(drawn, start=start, total=total) if teachers else drawn

        evaluate = partial(_evaluate, config, worker, prepared, log)
        training = Training(
            config=config.training,
            optimizer=config.optimizer,
            total_steps=total,
            seed=config.seed,
            configuration=resume_identity(config),
            checkpoints=checkpoints(config, log, keep=config.training.keep_checkpoints),
            journal=log,
            tokenizer=prepared.tokenizer,
            identity=prepared.identity | identity,
            record=prepared.record | record,
            rows_per_epoch=_rows_per_epoch(prepared),
            totals=lambda: [mixture.totals(prepared.splits, prepared.streams, total)],
            evaluate=lambda: evaluate(mixture.names)[0],
            context=context,
        )
        train(_objective(config, prepared, teachers), steps, training, worker)
        if worker.leads and not context.plan_only:
            figures, thresholds = evaluate(mixture.evaluated, last=True)
            _export(config, prepared, figures, thresholds, training.record)
            log.write(total, figures)
            log.finish(figures)
    worker.barrier()
    return figures


def _rows_per_epoch(prepared: Prepared) -> int | None:
    """Return the rows of an epoch; None for several data sets, which end at other times."""
    if len(prepared.splits) > 1:
        return None
    return sum(len(split.features.lengths) for split in prepared.splits.values())


def _objective(
    config: SupervisedConfig, prepared: Prepared, teachers: Mapping[str, Teachers]
) -> Supervised:
    """Return the objective: labels, the teachers' logits, and the hidden states of one teacher if
    ``matching`` is enabled.
    """
    model, weights = prepared.model, prepared.mixture.loss_weights()
    one_dataset = len(weights) == 1
    if not teachers:
        return Supervised(model, weights=weights, one_dataset=one_dataset)
    settings = next(iter(teachers.values())).settings
    distilled: dict[str, Any] = {
        "kd_weight": schedule(settings.schedule, settings.kd_weight),
        "temperature": settings.temperature,
        "weights": weights,
        "one_dataset": one_dataset,
    }
    matching = config.distillation.matching if isinstance(config, DistillConfig) else None
    if matching is None or not matching.enabled:
        return Distilled(model, **distilled)
    directory = teachers[prepared.mixture.names[0]].directories[matching.teacher]
    states = StateMatching(
        model.encoder,
        HiddenStatesTeacher(directory, attentions=matching.attention_weight > 0),
        layers=matching.layers,
        hidden_weight=matching.hidden_weight,
        attention_weight=matching.attention_weight,
    )
    return IntermediateDistilled(model, states, **distilled)


def _manifest(config: SupervisedConfig, teachers: Mapping[str, Teachers]) -> dict[str, Any]:
    """Return the manifest of the teachers of a run; a mixture has one of each data set."""
    if isinstance(config, DistillConfig):
        return dict(teachers[config.data.dataset].manifest)
    return {"datasets": {name: dict(found.manifest) for name, found in teachers.items()}}


def _lineage(
    config: SupervisedConfig, teachers: Mapping[str, Teachers]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the teachers for the record of the model, and the identity of the run's first
    teachers.
    """
    if not teachers:
        return {}, {}
    manifest, first = recorded_teachers(config.run_dir)
    listed = manifest.get("teachers") or [
        teacher | {"dataset": name}
        for name, of_dataset in manifest["datasets"].items()
        for teacher in of_dataset["teachers"]
    ]
    most = max(teachers.values(), key=lambda found: found.per_row)
    settings = to_dict(most.settings)
    record = {
        "distillation": {name: settings[name] for name in _CARD_SETTINGS if name in settings},
        "weighting": to_dict(used_weighting(most.weighting, most.per_row)),
        "teachers": listed,
    }
    folds = [found.folds for found in teachers.values() if found.folds > 1]
    identity = identity_of(teachers=first)
    if isinstance(config, DistillConfig) and folds:
        identity |= identity_of(folds=folds[0])
    return record, identity


def summary(config: SupervisedConfig, split: Split, teachers: Teachers) -> str:
    """Return the student, the rows of one data set and its teachers in one line."""
    parts, kept = [], kept_layers(config)
    if kept is not None:
        parts.append(f"student: layers {', '.join(map(str, kept))} of init")
    features = split.features
    unknown = next(iter(features.gold.values())) == UNKNOWN
    if unknown.ndim == 1 and len(unknown) == len(features) and unknown.any():
        unlabelled = len(np.unique(features.example[unknown]))
        labelled = len(np.unique(features.example)) - unlabelled
        parts.append(f"{labelled} labelled + {unlabelled} unlabelled rows")
    rule = used_weighting(teachers.weighting, teachers.per_row).rule
    each = f", {teachers.per_row} for each row" if teachers.folds > 1 else ""
    parts.append(f"{len(teachers.directories)} teachers{each}, rule {rule}")
    entries = teachers.manifest["teachers"]
    if others := [str(n) for n, entry in enumerate(entries) if ANSWERS_FOR in entry]:
        parts.append(f"with another tokenizer (they read texts): teacher {', '.join(others)}")
    return f"{split.dataset.name}: " + "; ".join(parts)


def _evaluate(
    config: SupervisedConfig,
    worker: Worker,
    prepared: Prepared,
    log: Journal,
    names: Sequence[str],
    *,
    last: bool = False,
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the metrics on data sets, and the no-answer threshold of each span task. With ``last``
    write predictions, and add ``data/<data set>/overlap_with_train``.

    The threshold is tuned on the task's first data set that is trained on and has questions without
    answer, and used on its other data sets.
    """
    figures: dict[str, float] = {}
    thresholds: dict[str, float] = {}
    for name in names:
        split = prepared.judged[name]
        task = split.features.task
        evaluation = evaluate_split(
            prepared.model,
            split,
            pad_id=prepared.pad_id,
            device=worker.device,
            threshold=thresholds.get(task),
            tune=name in prepared.splits,
            precision=config.training.precision,
            on_rows=partial(log.part, f"evaluating {name}"),
        )
        if last:
            # Also where it is 0, so that runs of one table have the same metrics.
            trained = prepared.splits.get(name, prepared.splits[prepared.mixture.names[0]])
            shared = count_shared(trained.examples, split.examples)
            figures[f"data/{name}/overlap_with_train"] = float(shared)
            evaluation.write(config.run_dir / "predictions" / name)
        figures |= {f"eval/{name}/{key}": value for key, value in evaluation.figures.items()}
        if evaluation.threshold is not None:
            thresholds[task] = evaluation.threshold
    return figures, thresholds


def _export(
    config: SupervisedConfig,
    prepared: Prepared,
    figures: dict[str, float],
    thresholds: Mapping[str, float],
    record: Mapping[str, Any],
) -> None:
    """Write the model in Hugging Face layout with the head of the first task, with tokenizer,
    threshold, card and record; heads of a mixture and further heads go below ``heads/``.
    """
    model = prepared.model
    first, *further = model.tasks
    each = isinstance(config, FinetuneConfig)
    with atomic_directory(config.run_dir / "hf") as top:
        heads = [(top / "heads" / task, task) for task in (further if each else model.tasks)]
        for directory, task in [(top, first), *heads]:
            model.export(directory, task)
            prepared.tokenizer.save_pretrained(directory)
            of_task = [split for split in prepared.splits.values() if split.task.name == task]
            write_model_record(
                directory,
                task=task,
                datasets=list(prepared.mixture.names),
                init=config.init,
                seed=config.seed,
                **row_limits(config.data),
                no_answer_threshold=thresholds.get(task),
                layers_of_init=kept_layers(config),
                **(trained_rows(config.data, of_task[0]) if of_task else {}),
                parameters=sum(x.numel() for x in model.parameters()),
                metrics=figures,
                **record,
            )
