"""Multi-task pre-training (ROaD): the gradient is averaged over randomly drawn data sets, with one
head per task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel

from road_ray.config.identity import resume_identity
from road_ray.data.batching import Batch
from road_ray.data.load_split import Split, tasks_of, training_tokenizer
from road_ray.data.model_files.locate_model import locate_model
from road_ray.data.row_limits import row_limits
from road_ray.data.task_and_dataset import Task
from road_ray.data.tokenizer import check_vocabulary, pad_id_of
from road_ray.distillation.schedule import schedule
from road_ray.distributed.train.launch import launch_run
from road_ray.errors import ConfigError
from road_ray.evaluation.evaluate_split import evaluate_split
from road_ray.models.architectures import longest_row
from road_ray.models.encoder import load_encoder, log_heads, model_directory
from road_ray.models.multitask import MultitaskModel, keep_pooler
from road_ray.objectives.distilled import Distilled
from road_ray.objectives.supervised import Supervised
from road_ray.recipes.distillation.teacher_record import record_teachers
from road_ray.recipes.distillation.teacher_source import TeacherSource
from road_ray.recipes.metric_names import check_stopping_metric
from road_ray.recipes.multitask.config import MultitaskConfig
from road_ray.recipes.multitask.mixture_streams import (
    check_mixing,
    loss_weights,
    make_stream,
    mixed_steps,
    mixture_totals,
    read_mixture,
)
from road_ray.recipes.multitask.mixture_teachers import (
    annotate_mixture,
    label_mixture,
    start_teacher_pools,
    teacher_lineage,
    teacher_sources,
)
from road_ray.recipes.preflight_checks import require_init, warn_of_rates
from road_ray.recipes.run_directory.model_record import atomic_directory, write_model_record
from road_ray.recipes.run_directory.run import (
    Run,
    checkpoints,
    journal,
    load_finished_run,
    open_run_directory,
    record_heads,
    record_truncated,
)
from road_ray.training.loop import head_units, identity_of, train
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.run_context import RunContext, Training
from road_ray.training.worker import Worker

if TYPE_CHECKING:
    from road_ray.distributed.teachers.client import ActorEnsemble


def multitask(config: MultitaskConfig, context: RunContext | None = None) -> Run:
    """Train on the mixture, with distillation for data sets that have teachers. ``hf/`` holds the
    encoder with the head of the first data set, ``hf/heads/<task>`` the encoder with each head.
    """
    return load_finished_run(config) or _run(config, context)


def _run(config: MultitaskConfig, context: RunContext | None) -> Run:
    if config.training.steps is None:
        raise ConfigError("training.steps is not given\n  allowed: a number of updates, at least 1")
    if config.training.passes != 1:
        raise ConfigError(
            f"training.passes = {config.training.passes}: a step of `multitask` has mixing.passes\n"
            f"  fix: mixing.passes={config.training.passes}, or a larger data.batch_size"
        )
    if len(set(config.data.datasets)) < len(config.data.datasets):
        raise ConfigError(
            f"data.datasets = {', '.join(config.data.datasets)}: one is named twice\n"
            "  allowed: each once; mixing.sampler says how often they are drawn"
        )
    check_mixing(config)
    check_stopping_metric("multitask", config)
    sources = teacher_sources(config)
    with open_run_directory(config, keep_checkpoints=config.training.kept_at_end()) as directory:
        if sources:
            manifests = {name: dict(source.manifest) for name, source in sources.items()}
            manifest = {"datasets": manifests}
            record_teachers(directory, manifest, config.distillation)
        if context is not None and context.plan_only:  # labelling is no step
            sources = {name: replace(source, store=None) for name, source in sources.items()}
        label_mixture(config, sources)
        with start_teacher_pools(config, sources) as actors:
            metrics = launch_run(
                main, config, sources, actors, context=context, directory=directory
            )
    return Run(directory, metrics)


def main(
    config: MultitaskConfig,
    worker: Worker,
    context: RunContext,
    sources: Mapping[str, TeacherSource],
    actors: Mapping[str, ActorEnsemble],
) -> dict[str, float]:
    """Train on one worker and return the metrics; teachers without ``actors`` are loaded here."""
    named = model_directory(require_init(config.init))
    tokenizer = training_tokenizer(named, config.data.datasets, config.data)
    directory = str(locate_model(named))
    encoder = load_encoder(directory)
    check_vocabulary(encoder.config.vocab_size, len(tokenizer), directory)
    splits, judged = read_mixture(config, worker, tokenizer, longest_row(encoder))
    torch.manual_seed(config.seed)
    model, heads = _build_model(config, encoder, splits, directory, leads=worker.leads)
    streams = {name: make_stream(s, config, worker, tokenizer) for name, s in splits.items()}
    total = config.training.steps or 1
    identity = identity_of(batch=config.data.batch_size, **_fingerprints(splits))
    identity |= head_units([split.task for split in splits.values()])
    record, teachers = teacher_lineage(config) if sources else ({}, {})
    identity |= identity_of(teachers=teachers) if sources else {}
    figures: dict[str, float] = {}
    with (
        journal(config, context, leads=worker.leads, total_steps=total) as log,
        annotate_mixture(
            config, sources, actors, splits, streams, worker=worker, on_event=log.event
        ) as mixture,
    ):
        record_heads(config, config.init, heads, log, context)
        record_truncated(splits.values(), log)

        def steps(start: int) -> Iterator[list[Batch]]:
            mixed = mixed_steps(config, splits, mixture.streams, start)
            return mixture.prepared_steps(mixed, start=start, total=total)

        training = Training(
            config=config.training,
            optimizer=config.optimizer,
            total_steps=total,
            seed=config.seed,
            configuration=resume_identity(config),
            checkpoints=checkpoints(config, log, keep=config.training.keep_checkpoints),
            journal=log,
            tokenizer=tokenizer,
            totals=lambda: [mixture_totals(config, splits, streams, total)],
            evaluate=lambda: _judge(config, judged, splits, model, tokenizer, worker, log)[0],
            identity=identity,
            record=record,
            context=context,
        )
        train(_objective(config, model, distil=bool(sources)), steps, training, worker)
        if worker.leads and not context.plan_only:
            figures, thresholds = _judge(config, judged, splits, model, tokenizer, worker, log)
            _export(config, model, tokenizer, figures, thresholds, record)
            log.write(total, figures)
            log.finish(figures)
    worker.barrier()
    return figures


def _fingerprints(splits: Mapping[str, Split]) -> dict[str, str]:
    return {name: split.features.fingerprint() for name, split in splits.items()}


def _build_model(
    config: MultitaskConfig,
    encoder: PreTrainedModel,
    splits: Mapping[str, Split],
    directory: str,
    *,
    leads: bool,
) -> tuple[MultitaskModel, Mapping[str, Sequence[str]]]:
    """Return the model and the names of its ``kept`` and ``new`` heads."""
    model = MultitaskModel(encoder, _tasks(config, splits))
    heads = keep_pooler(model, directory)
    if leads:
        log_heads(config.init, heads)
        warn_of_rates(config, str(encoder.config.model_type))
    return model, heads


def _tasks(config: MultitaskConfig, splits: Mapping[str, Split]) -> list[Task]:
    """Return every task of the mixture once: those of the data sets, then their further ones."""
    further = [task for name in splits for task in tasks_of(name, config.data)[1:]]
    tasks = [*(split.task for split in splits.values()), *further]
    return list({task.name: task for task in tasks}.values())


def _objective(config: MultitaskConfig, model: MultitaskModel, *, distil: bool) -> Supervised:
    if not distil:
        return Supervised(model, weights=loss_weights(config))
    settings = config.distillation
    return Distilled(
        model,
        kd_weight=schedule(settings.schedule, settings.kd_weight),
        temperature=settings.temperature,
        weights=loss_weights(config),
    )


def _judge(
    config: MultitaskConfig,
    judged: Mapping[str, Split],
    trained: Collection[str],
    model: MultitaskModel,
    tokenizer: Any,
    worker: Worker,
    log: Journal,
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the figures on every data set, and the no-answer threshold of each span task. The
    threshold is tuned on the task's first ``trained`` data set that has questions without answer,
    and used on its other data sets.
    """
    figures: dict[str, float] = {}
    thresholds: dict[str, float] = {}
    for name in sorted(judged, key=lambda name: name not in trained):
        task = judged[name].features.task
        result = evaluate_split(
            model,
            judged[name],
            pad_id=pad_id_of(tokenizer),
            device=worker.device,
            threshold=thresholds.get(task),
            tune=name in trained,
            precision=config.training.precision,
            on_rows=partial(log.part, f"evaluating {name}"),
        )
        figures |= {f"eval/{name}/{metric}": value for metric, value in result.figures.items()}
        if result.threshold is not None:
            thresholds[task] = result.threshold
    return figures, thresholds


def _export(
    config: MultitaskConfig,
    model: MultitaskModel,
    tokenizer: Any,
    figures: dict[str, float],
    thresholds: dict[str, float],
    record: Mapping[str, object],
) -> None:
    first = next(iter(model.tasks))
    with atomic_directory(config.run_dir / "hf") as top:
        for directory, task in [
            (top, first),
            *((top / "heads" / task, task) for task in model.tasks),
        ]:
            model.export(directory, task)
            tokenizer.save_pretrained(directory)
            write_model_record(
                directory,
                task=task,
                datasets=list(config.data.datasets),
                init=config.init,
                seed=config.seed,
                **row_limits(config.data),
                no_answer_threshold=thresholds.get(task),
                metrics=figures,
                **record,
            )
