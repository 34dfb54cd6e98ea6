"""Fine-tuning of one model on one data set, from the checkpoint of any stage."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from road_ray.config.identity import resume_identity
from road_ray.data.batching import Batch, Batching, BatchStream, WorkerShare
from road_ray.data.features.encode_examples import row_limit
from road_ray.data.load_split import Split, find_dataset, load_split, tasks_of, training_tokenizer
from road_ray.data.mixing import accumulated
from road_ray.data.model_files.locate_model import locate_model
from road_ray.data.model_files.remote_code import read_config
from road_ray.data.row_limits import row_limits
from road_ray.data.task_and_dataset import Task
from road_ray.data.tokenizer import check_vocabulary, limit_length, pad_id_of
from road_ray.distributed.train.launch import launch_run
from road_ray.errors import CheckpointError, ConfigError
from road_ray.evaluation.evaluate_split import Evaluation, evaluate_split
from road_ray.models.architectures import longest_row
from road_ray.models.encoder import (
    build_encoder,
    load_encoder,
    log_heads,
    model_directory,
)
from road_ray.models.encoder_layers import keep_layers, num_layers
from road_ray.models.multitask import MultitaskModel, keep_pooler, load_trained
from road_ray.objectives.base import Objective
from road_ray.objectives.supervised import Supervised
from road_ray.recipes.finetuning.config import (
    FinetuneConfig,
    FinetuneDataConfig,
    judged_names,
)
from road_ray.recipes.finetuning.model_cost import model_cost
from road_ray.recipes.metric_names import check_stopping_metric
from road_ray.recipes.preflight_checks import (
    fit_positions,
    require_init,
    warn_of_rates,
)
from road_ray.recipes.run_directory.model_record import (
    atomic_directory,
    head_for,
    other_task,
    write_model_record,
)
from road_ray.recipes.run_directory.run import (
    Run,
    checkpoints,
    journal,
    load_finished_run,
    open_run_directory,
    record_heads,
    record_truncated,
)
from road_ray.recipes.run_directory.trained_rows import trained_rows
from road_ray.recipes.train_dev_overlap import count_shared, warn_of_overlap
from road_ray.training.loop import Steps, head_units, identity_of, train
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.run_context import RunContext, Training
from road_ray.training.worker import Worker

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """Model, tokenizer and rows for training and evaluation; shared with distillation."""

    task: Task
    tokenizer: Any
    model: MultitaskModel
    split: Split
    judged: Mapping[str, Split]  # evaluation data; only on the leading worker
    stream: BatchStream
    total_steps: int
    identity: dict[str, str]
    heads: Mapping[str, list[str]]  # kept from `init`, and new
    lineage: dict[str, Any] = field(default_factory=dict)  # more fields of the model record


def finetune(config: FinetuneConfig, context: RunContext | None = None) -> Run:
    """Train and evaluate; the model is in ``run.hf_dir``, the metrics are ``eval/<data
    set>/<metric>``.
    """
    return load_finished_run(config) or _run(config, context)


def _run(config: FinetuneConfig, context: RunContext | None) -> Run:
    check_student(config)
    check_stopping_metric("finetune", config)
    with open_run_directory(config, keep_checkpoints=config.training.kept_at_end()) as directory:
        metrics = launch_run(main, config, context=context, directory=directory)
    return Run(directory, metrics)


def main(
    config: FinetuneConfig,
    worker: Worker,
    context: RunContext,
    load: Callable[..., Split] = load_split,
) -> dict[str, float]:
    """Fine-tune on one worker; return the metrics. ``load`` is ``load_split``, or a cache of it."""
    prepared = prepare(config, worker, load)
    objective = Supervised(prepared.model, one_dataset=True)

    def steps(start: int) -> Iterator[list[Batch]]:
        passes = config.training.passes
        return accumulated(prepared.stream.since(start * passes), passes)

    return fit(config, worker, context, prepared, objective, steps)


def prepare(
    config: FinetuneConfig, worker: Worker, load: Callable[..., Split] = load_split
) -> Prepared:
    """Return tokenizer, model and rows. Raises the errors of all of them before the training."""
    init = require_init(config.init)
    entry, task = find_dataset(config.data.dataset, config.data)
    check_judged(config.data)
    named = model_directory(init)
    # By its name: of the hub also a tokenizer without tokenizer.json.
    tokenizer = training_tokenizer(named, [entry.name], config.data)
    directory = str(locate_model(named))
    split = training_split(config.data, tokenizer, load)
    torch.manual_seed(config.seed)  # the new head, and the encoder when from_scratch
    model, heads = _model(config, directory, tasks_of(entry.name, config.data))
    longest = longest_row(model.encoder)
    split = fit_positions(split, longest)
    costs = {}
    if config.student.layers is not None:
        measured = partial(
            model_cost,
            model,
            split.features,
            pad_id=pad_id_of(tokenizer),
            device=worker.device,
        )
        costs["cost_of_init"] = measured()
        keep_layers(model.encoder, config.student.chosen(num_layers(model.encoder.config)))
        costs["cost"] = measured()
    check_vocabulary(model.encoder.config.vocab_size, len(tokenizer), directory)
    if worker.leads and (other := other_task(Path(directory), task, entry.name)) is not None:
        _log.info("%s has a head for %s; %s gets a new one", directory, other, task.name)
    if worker.leads:
        log_heads(config.init, heads)
        warn_of_rates(config, str(model.encoder.config.model_type))
    # Read now, so that missing data fail at once and not after hours of training.
    judged = _judged(config, tokenizer, load) if worker.leads else {}
    for dev_split in judged.values():
        warn_of_overlap(split, dev_split)
    judged = {name: fit_positions(dev_split, longest) for name, dev_split in judged.items()}
    limit_length(tokenizer, longest, row_limit(config.data.max_length_tokens, task))
    stream = BatchStream(
        split.features,
        Batching(config.data.batch_size, config.seed, config.data.max_batch_tokens),
        WorkerShare(worker.rank, worker.size),
        pad_id=pad_id_of(tokenizer),
    )
    updates = stream.batches_per_epoch * config.data.epochs / config.training.passes
    total = config.training.steps or max(1, math.ceil(updates))
    identity = identity_of(rows=split.features.fingerprint(), batch=config.data.batch_size)
    identity |= head_units([task])
    return Prepared(task, tokenizer, model, split, judged, stream, total, identity, heads, costs)


def _model(
    config: FinetuneConfig, directory: str, tasks: Sequence[Task]
) -> tuple[MultitaskModel, dict[str, list[str]]]:
    """Return the model of ``init`` with its head for this task, or a new one, and the names of its
    ``kept`` and ``new`` heads.
    """
    trained = head_for(Path(directory), tasks[0], config.data.dataset)
    if config.keep_head and trained is not None and not config.from_scratch and len(tasks) == 1:
        try:
            model = load_trained(str(trained), tasks[0], config.label_map)
            return model, {"kept": [tasks[0].name], "new": []}
        except CheckpointError as error:
            raise CheckpointError(f"{error}, or keep_head=false for a new head") from error
    encoder = load_encoder(directory)
    if config.from_scratch:
        model = MultitaskModel(build_encoder(encoder.config), tasks)
        return model, {"kept": [], "new": list(model.heads)}
    model = MultitaskModel(encoder, tasks)
    return model, keep_pooler(model, directory)


def kept_layers(config: FinetuneConfig) -> list[int] | None:
    """Return the indices of the layers of ``init`` that the model has; None for all."""
    if config.student.layers is None:
        return None
    place = locate_model(model_directory(config.init), weights=False)
    return list(config.student.chosen(num_layers(read_config(place))))


def check_student(config: FinetuneConfig) -> None:
    """Raise ``ConfigError`` unless ``init`` has the layers that ``student.layers`` names."""
    if config.student.layers is not None:
        require_init(config.init)
        kept_layers(config)


def check_judged(data: FinetuneDataConfig) -> None:
    """Raise ``ConfigError`` if ``evaluate_on`` names a data set of another task."""
    trained = find_dataset(data.dataset, data)[0].task
    for name in data.evaluate_on or ():
        if (task := find_dataset(name, data)[0].task) != trained:
            raise ConfigError(
                f"data.evaluate_on: {name} is of task {task}, {data.dataset} of task {trained}\n"
                "  allowed: data sets of one task, because a model has one head\n"
                "  fix: leave it out; nothing was started"
            )


def training_split(
    data: FinetuneDataConfig,
    tokenizer: PreTrainedTokenizerFast,
    load: Callable[..., Split] = load_split,
) -> Split:
    """Return the training rows of ``data.dataset``, followed by those of ``data.unlabelled``."""
    return load(
        data.dataset,
        "train",
        data,
        tokenizer,
        keep=data.learns_from,
        unlabelled=data.unlabelled_sources(),
    )


def _judged(config: FinetuneConfig, tokenizer: Any, load: Callable[..., Split]) -> dict[str, Split]:
    names = judged_names(config)
    return {name: load(name, "dev", config.data, tokenizer) for name in names}


def fit(
    config: FinetuneConfig,
    worker: Worker,
    context: RunContext,
    prepared: Prepared,
    objective: Objective,
    steps: Steps,
) -> dict[str, float]:
    """Train ``objective``, then evaluate and export it on the leading worker, which returns the
    metrics; other workers and plans return none.
    """
    figures: dict[str, float] = {}
    with journal(config, context, leads=worker.leads, total_steps=prepared.total_steps) as log:
        record_heads(config, config.init, prepared.heads, log, context)
        record_truncated([prepared.split], log)
        training = Training(
            config=config.training,
            optimizer=config.optimizer,
            total_steps=prepared.total_steps,
            seed=config.seed,
            configuration=resume_identity(config),
            checkpoints=checkpoints(config, log, keep=config.training.keep_checkpoints),
            journal=log,
            tokenizer=prepared.tokenizer,
            identity=prepared.identity,
            record=prepared.lineage,
            rows_per_epoch=len(prepared.split.features.lengths),
            totals=lambda: [prepared.stream.totals(prepared.total_steps * config.training.passes)],
            evaluate=lambda: _evaluate(config, worker, prepared, log, config.data.dataset)[1],
            context=context,
        )
        train(objective, steps, training, worker)
        if worker.leads and not context.plan_only:
            figures = judge(config, worker, prepared, log)
            log.write(prepared.total_steps, figures)
            log.finish(figures)
    worker.barrier()
    return figures


def _evaluate(
    config: FinetuneConfig,
    worker: Worker,
    prepared: Prepared,
    log: Journal,
    name: str,
    threshold: float | None = None,
) -> tuple[Evaluation, dict[str, float]]:
    """Return the evaluation on a dev split, and its metrics as ``eval/<name>/<metric>``."""
    evaluation = evaluate_split(
        prepared.model,
        prepared.judged[name],
        pad_id=pad_id_of(prepared.tokenizer),
        device=worker.device,
        threshold=threshold,
        tune=name == config.data.dataset,
        precision=config.training.precision,
        on_rows=partial(log.part, f"evaluating {name}"),
    )
    return evaluation, {
        f"eval/{name}/{metric}": value for metric, value in evaluation.figures.items()
    }


def judge(
    config: FinetuneConfig, worker: Worker, prepared: Prepared, log: Journal
) -> dict[str, float]:
    """Return metrics on every data set of ``evaluate_on``; write predictions and ``hf/``.

    The no-answer threshold is tuned on the dev split of the training data set, if that is
    evaluated and has questions without answer, and is used on all data sets.
    """
    figures: dict[str, float] = {}
    threshold: float | None = None
    trained_on = config.data.dataset
    for name in sorted(
        config.data.evaluate_on or (trained_on,), key=lambda name: name != trained_on
    ):
        # Also where it is 0, so that runs of one table have the same metrics.
        shared = count_shared(prepared.split.examples, prepared.judged[name].examples)
        figures[f"data/{name}/overlap_with_train"] = float(shared)
        evaluation, metrics = _evaluate(config, worker, prepared, log, name, threshold)
        threshold = evaluation.threshold
        evaluation.write(config.run_dir / "predictions" / name)
        figures |= metrics
    export(config, prepared, figures, threshold)
    return figures


def export(
    config: FinetuneConfig, prepared: Prepared, figures: dict[str, float], threshold: float | None
) -> None:
    """Write the model in Hugging Face layout, with tokenizer, threshold, card and record; further
    trained heads, such as those of QuAC, go below ``heads/``.
    """
    main_task = prepared.task.name
    with atomic_directory(config.run_dir / "hf") as top:
        further = [task for task in prepared.model.tasks if task != main_task]
        for directory, task in [
            (top, main_task),
            *((top / "heads" / task, task) for task in further),
        ]:
            prepared.model.export(directory, task)
            prepared.tokenizer.save_pretrained(directory)
            write_model_record(
                directory,
                task=task,
                datasets=[config.data.dataset],
                init=config.init,
                seed=config.seed,
                **row_limits(config.data),
                no_answer_threshold=threshold if task == main_task else None,
                layers_of_init=kept_layers(config),
                **(trained_rows(config.data, prepared.split) if task == main_task else {}),
                parameters=sum(x.numel() for x in prepared.model.parameters()),
                metrics=figures,
                **prepared.lineage,
            )
