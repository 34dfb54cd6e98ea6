"""Evaluation of a trained model on one or more data sets, with the thresholds and the temperature
that are stored with it, and of an ensemble: the mean of several models' logits, evaluated like one
model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.config import SourceConfig
from road_ray.data.load_split import find_dataset, load_split, tasks_of
from road_ray.data.model_files import locate_model
from road_ray.data.task_and_dataset import Task
from road_ray.data.tokenizer import check_vocabulary, load_tokenizer, pad_id_of
from road_ray.data.training_rows import with_trained_limits
from road_ray.distillation.teacher import Teacher, TeacherOptions, inputs_of
from road_ray.distillation.teacher_directory import check_equal_tokenizers
from road_ray.errors import ConfigError
from road_ray.evaluation.evaluate_split import (
    DecisionRule,
    batched_logits,
    evaluate_logits,
    evaluate_split,
)
from road_ray.evaluation.metrics import Thresholds
from road_ray.models.architectures import longest_row
from road_ray.models.encoder import model_directory
from road_ray.models.label_order import LabelMap
from road_ray.models.multitask import load_trained
from road_ray.recipes.config import EvaluateConfig
from road_ray.recipes.preflight_checks import fit_positions, require_init, require_splits
from road_ray.recipes.run_directory.model_record import (
    head_for,
    model_record,
    stored_threshold,
    trained_head,
    with_trained_data,
)
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.recipes.train.teaching_config import read_teacher_list
from road_ray.system.files import staged_directory, write_json_atomic
from road_ray.training.monitoring.console_progress import Console
from road_ray.training.run_context import RunContext
from road_ray.training.worker import Worker


def evaluate(config: EvaluateConfig, context: RunContext | None = None) -> Run:
    """Return metrics ``eval/<data set>/<metric>``; write predictions in the official layouts below
    ``predictions/``. The evaluation is repeated if the model or a data set has changed.
    """
    require_init(config.init)
    listed: list[str] = []
    if config.init.endswith(".json"):
        listed = read_teacher_list(Path(config.init).expanduser(), "init").names
    data = with_trained_data(config.data, listed[0] if listed else config.init)
    config = config.model_copy(update={"data": data}).placed()
    tune_on = config.tune_threshold_on
    if tune_on not in (None, *data.datasets):
        raise ConfigError(
            f"tune_threshold_on = {tune_on}: is not evaluated\n"
            f"  allowed: {', '.join(data.datasets)}\n"
            "  fix: name it in data.datasets too"
        )
    if done := load_finished_run(config):
        return done
    require_splits(
        ((name, data.split, data) for name in data.datasets),
        "name data sets that are there (data.datasets=[...]) or their directory (data.root=...)",
    )
    tasks = {task.name: task for _, task in (find_dataset(name, data) for name in data.datasets)}
    if len(tasks) > 1:
        raise ConfigError(
            f"data.datasets = {', '.join(data.datasets)} are of {len(tasks)} tasks: "
            f"{', '.join(sorted(tasks))}\n"
            "  allowed: data sets of one task, for a model has one head\n"
            "  fix: evaluate them in several runs"
        )
    (task,) = tasks.values()
    with (
        open_run_directory(config) as run_dir,
        staged_directory(run_dir / "predictions") as place,
        closing(Console(config.console)) as console,
    ):
        if listed:
            directories = [model_directory(require_init(name)) for name in listed]
            record = model_record(locate_model(directories[0]))
            metrics = evaluate_ensemble(
                directories,
                with_trained_limits(data, record),
                data.datasets,
                split=data.split,
                predictions=place,
                label_map=config.label_map,
                tune_on=tune_on,
                on_part=console.part,
            )
        else:
            metrics = _model_metrics(config, task, place, console)
        write_json_atomic(run_dir / "metrics.json", metrics)
    return Run(run_dir, metrics)


def _model_metrics(
    config: EvaluateConfig, task: Task, place: Path, console: Console
) -> dict[str, float]:
    """Evaluate one model, on each data set with the head that was trained for it."""
    named = model_directory(require_init(config.init))
    directory, tune_on = locate_model(named), config.tune_threshold_on
    tokenizer = load_tokenizer(named)  # of the hub also one without tokenizer.json
    pad_id, device = pad_id_of(tokenizer), Worker.alone().device
    # A mixture may have a head for each data set; one that it has not seen gets that of the first.
    first = head_for(directory, task, config.data.datasets[0]) or directory
    heads = {name: head_for(directory, task, name) or first for name in config.data.datasets}
    models = {head: load_trained(str(head), task, config.label_map) for head in heads.values()}
    for name, head in heads.items():
        for further in tasks_of(name, config.data)[1:]:  # such as those of QuAC
            place_of_head = trained_head(directory, further)
            if place_of_head is not None and further.name not in models[head].tasks:
                trained = load_trained(str(place_of_head), further)
                models[head].heads[further.name] = trained.heads[further.name]
                models[head].tasks[further.name] = further
    for model in models.values():
        check_vocabulary(model.encoder.config.vocab_size, len(tokenizer), str(directory))
    source = with_trained_limits(config.data, model_record(directory))
    threshold: float | Thresholds | None = None
    metrics: dict[str, float] = {}
    for name in sorted(heads, key=lambda name: name != tune_on):
        model = models[heads[name]]
        if tune_on is None:
            threshold = stored_threshold(heads[name])
        split = load_split(name, source.split, source, tokenizer, evaluated=True)
        result = evaluate_split(
            model.to(device),
            fit_positions(split, longest_row(model.encoder)),
            DecisionRule(
                threshold=threshold,
                tune=name == tune_on,
                temperature=model_record(heads[name]).get("temperature"),
            ),
            pad_id=pad_id,
            device=device,
            on_rows=partial(console.part, f"evaluating {name}"),
        )
        threshold = result.threshold
        result.write(place / name)
        metrics |= {f"eval/{name}/{metric}": value for metric, value in result.metrics.items()}
    return metrics


def evaluate_ensemble(
    directories: Sequence[str | Path],
    source: SourceConfig,
    names: Sequence[str],
    *,
    split: str = "dev",
    predictions: Path | None = None,
    label_map: LabelMap | None = None,
    tune_on: str | None = None,
    on_part: Callable[[str, int, int], None] | None = None,
) -> dict[str, float]:
    """Return ``eval/<data set>/ensemble_<metric>`` of the models on a split of the data sets.

    The no-answer threshold of the mean is tuned on the data set ``tune_on`` and used on all. With
    None there is no threshold, because none is stored for a mean. Raises ``CheckpointError`` for
    models with different tokenizers.
    """
    places = [locate_model(model_directory(str(directory))) for directory in directories]
    check_equal_tokenizers(places)  # all of them get the ids of the first one's
    tokenizer = load_tokenizer(places[0])
    splits = {name: load_split(name, split, source, tokenizer, evaluated=True) for name in names}
    _, task = find_dataset(names[0], source)
    options = TeacherOptions(label_map=label_map)
    sums: dict[str, list[NDArray[np.float32]]] = {}
    for number, place in enumerate(places, start=1):  # one model is in memory at a time
        teacher = Teacher(place, task, options, Worker.alone().device)
        for name, rows in splits.items():
            title = f"evaluating {name}, model {number} of {len(places)}"
            logits = batched_logits(
                partial(_logits, teacher),
                rows.features,
                task.kind,
                pad_id_of(tokenizer),
                None if on_part is None else partial(on_part, title),
            )
            sums[name] = list(map(np.add, sums[name], logits)) if name in sums else logits
    metrics: dict[str, float] = {}
    threshold: float | Thresholds | None = None
    for name in sorted(splits, key=lambda name: name != tune_on):
        mean = [row / np.float32(len(places)) for row in sums[name]]
        result = evaluate_logits(splits[name], mean, DecisionRule(threshold, tune=name == tune_on))
        threshold = result.threshold
        if predictions is not None:
            result.write(predictions / name)
        metrics |= {f"eval/{name}/ensemble_{key}": value for key, value in result.metrics.items()}
        cut = splits[name].features.truncation
        metrics |= {f"eval/{name}/{key}": value for key, value in cut.items()}
    return metrics


def _logits(teacher: Teacher, batch: Mapping[str, Any]) -> Tensor:
    return teacher.logits(**inputs_of(batch))
