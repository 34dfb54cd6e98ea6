"""The supervised recipe: a run trains a model on a mixture, with teachers or without, then
evaluates and exports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from road_ray.data.load_split import Split, find_dataset
from road_ray.data.mixing import Since
from road_ray.data.task_and_dataset import Choose, Classify, MultiLabel
from road_ray.data.tokenizer import pad_id_of
from road_ray.data.training_rows import row_limits
from road_ray.distillation.teacher_directory import ANSWERS_FOR
from road_ray.distributed.connection import connected
from road_ray.errors import ConfigError
from road_ray.evaluation.evaluate_split import DecisionRule, evaluate_split
from road_ray.evaluation.metrics import threshold_entry
from road_ray.recipes.preflight_checks import check_stopping_metric
from road_ray.recipes.run_directory.model_record import trained_rows, write_model_record
from road_ray.recipes.run_directory.run import (
    Run,
    launch,
    load_finished_run,
    open_run_directory,
    open_training,
)
from road_ray.recipes.train.answer_files import FILE_SHA256, read_files
from road_ray.recipes.train.config import (
    DistillConfig,
    FinetuneConfig,
    MultitaskConfig,
    TrainConfig,
)
from road_ray.recipes.train.find_teachers import check_truncation, find_teachers
from road_ray.recipes.train.mixture import check_mixture, read, steps, totals
from road_ray.recipes.train.prepare import Prepared, build_objective, kept_layers, prepare
from road_ray.recipes.train.teachers import Teachers, lineage, manifest_of
from road_ray.system.files import staged_directory, write_json_atomic
from road_ray.training.loop import train
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.run_context import RunContext
from road_ray.training.worker import Worker

if TYPE_CHECKING:
    from road_ray.distributed.teachers import ActorEnsemble


def run_training(
    config: TrainConfig,
    context: RunContext | None = None,
    actors: Mapping[str, ActorEnsemble] | None = None,
) -> Run:
    """Train on one data set or a mixture, evaluate and export; the metrics are ``eval/<data
    set>/<metric>``. The model is in ``run.hf_dir``; that of a mixture has there the head of the
    first data set, and each head in ``heads/<task>``.

    The run starts and stops the teachers that answer from actors, unless ``actors`` has the
    ensemble of every data set: then their owner stops them.
    """
    if done := load_finished_run(config):
        return done
    check(config)
    teachers = find_teachers(config)
    for name, entry in config.data.sets.items():
        without = entry.label is None and entry.kind not in ("span", "tag")
        if without and name in {*config.data.trained_on}.difference(teachers):
            raise ConfigError(
                f"data.sets.{name}.label = null: nothing can be learnt from rows without labels\n"
                "  fix: name the column of the labels, or give teachers: road distill"
            )
    rows = _rows_of_teachers(config, teachers)
    # Before the run directory is there, so that a bad file leaves none.
    for name, split in rows.items():
        teachers[name] = replace(teachers[name], answers=read_files(teachers[name], split))
    keep, actors = config.training.keep_checkpoints_at_end or 0, dict(actors or {})
    with open_run_directory(config, keep_checkpoints=keep) as directory, ExitStack() as stack:
        if context is not None and context.plan_only:  # labelling is no step
            teachers = {name: replace(found, store=None) for name, found in teachers.items()}
        for name, found in teachers.items():
            on_actors = found.config.distillation.host == "actors" and found.models
            if found.store is not None:
                found.label(rows[name], actors.pop(name, None))
            elif on_actors and name not in actors:
                stack.enter_context(connected(config.address))
                others = config.total_teachers - len(found.models)
                pool = found.start_pool(config.workers, others)
                actors[name] = stack.enter_context(pool)
        metrics = launch(main, config, teachers, actors, context=context)
    return Run(directory, metrics)


def label_training_rows(config: TrainConfig) -> None:
    """Have the teachers answer all training rows that have no answer in their tables."""
    teachers = find_teachers(config)
    for name, split in _rows_of_teachers(config, teachers).items():
        teachers[name].label(split)


def _rows_of_teachers(config: TrainConfig, teachers: Mapping[str, Teachers]) -> dict[str, Split]:
    """Return the training rows of teachers that label them before the training, read texts or are
    files, once it is checked that no text is truncated.
    """
    rows = {}
    for name, found in teachers.items():
        other = any(entry.keys() & {ANSWERS_FOR, FILE_SHA256} for entry in found.entries)
        if other or found.store is not None:
            rows[name] = read(config, name, "train", found.tokenizer)
            check_truncation(found, rows[name])
    return rows


def check(config: TrainConfig) -> None:
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
    fitted = [name for name in config.data.trained_on if name in config.data.evaluated_on]
    kinds = [find_dataset(name, config.data)[1].kind for name in fitted]
    if config.calibrate and not any(isinstance(k, Classify | MultiLabel | Choose) for k in kinds):
        raise ConfigError(
            "calibrate = true: no task has classes, several labels or choices, and is evaluated on "
            "the data set that is trained on\n  fix: leave it out, or name that in data.evaluate_on"
        )
    matching = config.distillation.matching if isinstance(config, DistillConfig) else None
    attention = config.encoder.attention
    if matching is not None and matching.attention_weight and attention not in ("auto", "eager"):
        raise ConfigError(
            f"encoder.attention = {attention}: returns no attention maps, which "
            "distillation.matching.attention_weight compares\n  fix: encoder.attention=eager"
        )
    check_mixture(config)
    kept_layers(config)
    if config.training.early_stopping.patience is not None:
        check_stopping_metric(config)


def main(
    config: TrainConfig,
    worker: Worker,
    context: RunContext,
    teachers: Mapping[str, Teachers],
    actors: Mapping[str, ActorEnsemble],
) -> dict[str, float]:
    """Train and evaluate on one worker. Rank 0 then exports the model and returns the metrics;
    other workers and plans return none. Teachers without ``actors`` are loaded here.
    """
    prepared = prepare(config, worker)
    total, names = prepared.total_steps, config.data.trained_on
    splits, several = list(prepared.splits.values()), len(names) > 1
    record, identity = lineage(config, teachers)
    metrics: dict[str, float] = {}
    with open_training(
        config,
        worker,
        context,
        heads=prepared.heads,
        total_steps=total,
        tokenizer=prepared.tokenizer,
        identity=prepared.identity | identity,
        rows_per_epoch=None if several else len(splits[0].features),
        totals=lambda: totals(prepared.streams, prepared.draw, total),
        evaluate=lambda: evaluate(config, worker, prepared, log, names)[0],
    ) as training:
        log: Journal = training.journal
        streams: dict[str, Since] = {n: stream.since for n, stream in prepared.streams.items()}
        for name, found in teachers.items():
            split, event = prepared.splits[name], log.event
            on_event = partial(event, dataset=name) if several else event
            ensemble = found.open(split, actors.get(name), worker=worker, on_event=on_event)
            streams[name] = partial(found.teach, streams[name], ensemble)

        # The weight of the teachers may follow a schedule.
        since = partial(steps, streams, prepared.draw, total if teachers else None)
        train(build_objective(config, prepared, teachers), since, training)
        if not context.plan_only:
            # Those that are trained on come first: the thresholds of others are theirs.
            last = sorted(config.data.evaluated_on, key=lambda name: name not in names)
            metrics, tuned = evaluate(config, worker, prepared, log, last, last=True)
            if worker.is_main:
                export(config, prepared, teachers, metrics, tuned, record)
                log.write(context.step, metrics)
                log.finish(metrics)
    worker.barrier()
    return metrics


def evaluate(
    config: TrainConfig,
    worker: Worker,
    prepared: Prepared,
    log: Journal,
    names: Sequence[str],
    *,
    last: bool = False,
) -> tuple[dict[str, float], dict[str, dict[str, object]]]:
    """Return the metrics on data sets, and what is tuned for each task as its model records it: the
    no-answer threshold or those of several labels, and the temperature. With ``last`` write
    predictions, and add ``data/<data set>/overlap_with_train`` and the truncation of the training
    rows (that of evaluated rows is in ``eval/<data set>/``).

    The threshold is tuned on the task's first data set that is trained on and has questions without
    answer, and used on its other data sets; so is the temperature, with ``last``. Collective: all
    workers compute logits, and rank 0 alone returns metrics.
    """
    metrics: dict[str, float] = {}
    thresholds: dict[str, Any] = {}
    temperatures: dict[str, float] = {}
    # At the end that of predictions, except that the kernels of flash attention need bf16.
    exact = last and config.encoder.attention != "flash_attention_2"
    precision = "fp32" if exact else config.training.precision
    splits = prepared.dev_splits
    answered = {n: all(getattr(x, "answers", True) for x in splits[n].examples) for n in names}
    for name in sorted(names, key=answered.__getitem__):
        split = splits[name]
        task = split.features.task
        evaluation = evaluate_split(
            prepared.model,
            split,
            DecisionRule(
                threshold=thresholds.get(task),
                tune=name in prepared.splits,
                temperature=temperatures.get(task),
                calibrate=config.calibrate and last and name in prepared.splits,
            ),
            pad_id=pad_id_of(prepared.tokenizer),
            precision=precision,
            on_rows=partial(log.console.part, f"evaluating {name}"),
            group=worker,
        )
        if not worker.is_main:
            continue
        if last:
            # Also where it is 0, so that runs of one table have the same metrics.
            metrics[f"data/{name}/overlap_with_train"] = float(prepared.overlaps[name])
            evaluation.write(config.run_dir / "predictions" / name)
            if name in prepared.splits:
                cut = prepared.splits[name].features.truncation
                metrics |= {f"data/{name}/{key}": value for key, value in cut.items()}
        metrics |= {f"eval/{name}/{key}": value for key, value in evaluation.metrics.items()}
        thresholds[task] = evaluation.threshold
        if evaluation.temperature is not None:
            temperatures[task] = evaluation.temperature
    tuned = {task: threshold_entry(thresholds.get(task)) for task in prepared.model.tasks}
    for task, temperature in temperatures.items():
        tuned[task] |= {"temperature": temperature}
    return metrics, tuned


def export(
    config: TrainConfig,
    prepared: Prepared,
    teachers: Mapping[str, Teachers],
    metrics: dict[str, float],
    tuned: Mapping[str, Mapping[str, object]],
    record: Mapping[str, Any],
) -> None:
    """Write the model in Hugging Face layout with the head of the first task, with tokenizer,
    what is tuned, card and record; heads of a mixture and further heads go below ``heads/``. The
    teachers are listed in ``teachers.json``.
    """
    if teachers:  # of which a resumed run has proven to have the same
        write_json_atomic(config.run_dir / "teachers.json", manifest_of(config, teachers))
    model = prepared.model
    first, *further = model.tasks
    each = isinstance(config, FinetuneConfig)
    with staged_directory(config.run_dir / "hf") as top:
        heads = [(top / "heads" / task, task) for task in (further if each else model.tasks)]
        for directory, task in [(top, first), *heads]:
            model.export(directory, task)
            prepared.tokenizer.save_pretrained(directory)
            of_task = [split for split in prepared.splits.values() if split.task.name == task]
            write_model_record(
                directory,
                task=task,
                head=model.tasks[task].head,
                datasets=list(config.data.trained_on),
                head_datasets=[split.dataset.name for split in of_task],
                init=config.init,
                seed=config.seed,
                **row_limits(config.data),
                **tuned[task],
                layers_of_init=kept_layers(config),
                **(trained_rows(config.data, of_task[0]) if of_task else {}),
                parameters=sum(x.numel() for x in model.parameters()),
                metrics=metrics,
                **record,
            )
