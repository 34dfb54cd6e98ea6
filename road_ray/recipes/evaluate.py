"""Evaluation of a trained model on one or more data sets, with its stored no-answer threshold."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from road_ray.data.load_split import Split, find_dataset, load_split, tasks_of
from road_ray.data.model_files.locate_model import locate_model
from road_ray.data.row_limits import with_trained_limits
from road_ray.data.task_and_dataset import Task
from road_ray.data.tokenizer import check_vocabulary, load_tokenizer, pad_id_of
from road_ray.errors import ConfigError
from road_ray.evaluation.evaluate_split import evaluate_split
from road_ray.models.architectures import longest_row
from road_ray.models.encoder import model_directory
from road_ray.models.multitask import MultitaskModel, load_trained
from road_ray.recipes.config import EvaluateConfig, EvaluateDataConfig
from road_ray.recipes.distillation.ensemble_eval import evaluate_ensemble
from road_ray.recipes.distillation.teacher_list import read_teacher_list
from road_ray.recipes.preflight_checks import fit_positions, require_init, require_splits
from road_ray.recipes.run_directory.model_record import (
    head_for,
    stored_threshold,
    trained_head,
    trained_limits,
)
from road_ray.recipes.run_directory.recorded_config import deciding_digest
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.recipes.run_directory.trained_rows import with_trained_data
from road_ray.system.json_file import write_json_atomic
from road_ray.training.monitoring.console_progress import Console
from road_ray.training.run_context import RunContext
from road_ray.training.worker import Worker


def evaluate(config: EvaluateConfig, context: RunContext | None = None) -> Run:
    """Return figures ``eval/<data set>/<metric>``; write predictions in the official layouts below
    ``predictions/``. The evaluation is repeated if the model or a data set has changed.
    """
    config = _placed(_with_data(config))
    _check_tuned(config)
    if done := load_finished_run(config):
        return done
    data = config.data
    require_splits(
        ((name, data.split, data) for name in data.datasets),
        "name data sets that are there (data.datasets=[...]) or their directory (data.root=...)",
    )
    if config.init.endswith(".json"):
        return _run_ensemble(config, _teachers(config))
    return _run(config)


def _with_data(config: EvaluateConfig) -> EvaluateConfig:
    """Return the configuration with the data of the training where none are given."""
    model = require_init(config.init)
    if model.endswith(".json"):
        model = read_teacher_list(Path(model).expanduser(), "init")[0][0]
    return config.model_copy(update={"data": with_trained_data(config.data, model)})


def _placed(config: EvaluateConfig) -> EvaluateConfig:
    """Return the configuration with a run directory named after the model and a digest, unless it
    names another directory.
    """
    if config.run_dir != EvaluateConfig.model_fields["run_dir"].default:
        return config
    parts = [part for part in Path(config.init).parts if part not in ("hf", "teachers.json")]
    name = re.sub(r"[^\w.-]+", "-", "".join(parts[-1:])) or "model"
    place = config.run_dir.with_name(f"{name}-{deciding_digest(config)[:8]}")
    return config.model_copy(update={"run_dir": place})


@contextmanager
def _predictions(run_dir: Path) -> Iterator[Path]:
    """Yield a directory for predictions, which replace earlier ones once all are written."""
    staged, place = run_dir / ".judging", run_dir / "predictions"
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    try:
        yield staged
        if place.exists():
            place.rename(staged / "earlier")
        (staged / "predictions").rename(place)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _teachers(config: EvaluateConfig) -> list[Path]:
    """Return the model directories of the ``teachers.json`` that ``init`` names."""
    names, _ = read_teacher_list(Path(config.init).expanduser(), "init")
    return [locate_model(model_directory(require_init(name))) for name in names]


def _run_ensemble(config: EvaluateConfig, directories: Sequence[Path]) -> Run:
    """Evaluate the mean of several models. No threshold is stored for it."""
    _task_of(config.data)
    with (
        open_run_directory(config) as run_dir,
        _predictions(run_dir) as staged,
        closing(Console(config.console)) as console,
    ):
        figures = evaluate_ensemble(
            directories,
            with_trained_limits(config.data, trained_limits(directories[0])),
            config.data.datasets,
            split=config.data.split,
            predictions=staged / "predictions",
            label_map=config.label_map,
            tune_on=config.tune_threshold_on,
            on_part=console.part,
        )
        write_json_atomic(run_dir / "metrics.json", figures)
    return Run(run_dir, figures)


def _run(config: EvaluateConfig) -> Run:
    init = require_init(config.init)
    task = _task_of(config.data)
    named = model_directory(init)
    directory = str(locate_model(named))
    with (
        open_run_directory(config) as run_dir,
        _predictions(run_dir) as staged,
        closing(Console(config.console)) as console,
    ):
        tokenizer = load_tokenizer(named)  # of the hub also one without tokenizer.json
        places = _heads(directory, task, config.data.datasets)
        models = {
            place: load_trained(place, task, config.label_map)
            for place in dict.fromkeys(places.values())
        }
        for name, place in places.items():
            _add_further_heads(models[place], Path(directory), tasks_of(name, config.data)[1:])
        for model in models.values():
            check_vocabulary(model.encoder.config.vocab_size, len(tokenizer), directory)
        tune_on = config.tune_threshold_on
        threshold: float | None = None
        source = with_trained_limits(config.data, trained_limits(Path(directory)))
        figures: dict[str, float] = {}
        for name in sorted(places, key=lambda name: name != tune_on):
            split = load_split(name, source.split, source, tokenizer, judged=True)
            model, tune = models[places[name]], name == tune_on
            if tune_on is None:
                threshold = stored_threshold(Path(places[name]))
            scored, threshold = _judge(
                model, split, tokenizer, threshold, staged, console, tune=tune
            )
            figures |= scored
        write_json_atomic(run_dir / "metrics.json", figures)
    return Run(run_dir, figures)


def _heads(directory: str, task: Task, names: Sequence[str]) -> dict[str, str]:
    """Return the directory of the head of each data set. A mixture may have one for each; a set
    that it has not seen is judged by that of the first.
    """
    first = head_for(Path(directory), task, names[0]) or directory
    return {name: str(head_for(Path(directory), task, name) or first) for name in names}


def _add_further_heads(model: MultitaskModel, directory: Path, tasks: Sequence[Task]) -> None:
    """Add the further heads of a data set, such as QuAC's, that were trained with the model."""
    for task in tasks:
        place = trained_head(directory, task)
        if place is not None and task.name not in model.tasks:
            model.heads[task.name] = load_trained(str(place), task).heads[task.name]
            model.tasks[task.name] = task


def _check_tuned(config: EvaluateConfig) -> None:
    if config.tune_threshold_on not in (None, *config.data.datasets):
        raise ConfigError(
            f"tune_threshold_on = {config.tune_threshold_on}: is not evaluated\n"
            f"  allowed: {', '.join(config.data.datasets)}\n"
            "  fix: name it in data.datasets too"
        )


def _judge(
    model: MultitaskModel,
    split: Split,
    tokenizer: Any,
    threshold: float | None,
    staged: Path,
    console: Console,
    *,
    tune: bool,
) -> tuple[dict[str, float], float | None]:
    device, name = Worker.alone().device, split.dataset.name
    split = fit_positions(split, longest_row(model.encoder))
    pad_id = pad_id_of(tokenizer)
    result = evaluate_split(
        model.to(device),
        split,
        pad_id=pad_id,
        device=device,
        threshold=threshold,
        tune=tune,
        on_rows=partial(console.part, f"evaluating {name}"),
    )
    result.write(staged / "predictions" / name)
    figures = {f"eval/{name}/{metric}": value for metric, value in result.figures.items()}
    return figures, result.threshold


def _task_of(data: EvaluateDataConfig) -> Task:
    names = data.datasets
    tasks = {task.name: task for _, task in (find_dataset(name, data) for name in names)}
    if len(tasks) > 1:
        raise ConfigError(
            f"data.datasets = {', '.join(names)} are of {len(tasks)} tasks: "
            f"{', '.join(sorted(tasks))}\n"
            "  allowed: data sets of one task, for a model has one head\n"
            "  fix: evaluate them in several runs"
        )
    return next(iter(tasks.values()))
