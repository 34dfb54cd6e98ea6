"""Evaluation of a trained model on one or more data sets, with the thresholds and the temperature
that are stored with it, of an ensemble, the mean of several models' logits, and of a soup, which is
one model with the mean of their weights. Source: Wortsman et al. 2022, Model soups.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from road_ray.data.config import SourceConfig
from road_ray.data.encode_examples import row_lengths
from road_ray.data.load_split import Split, find_dataset, load_split, tasks_of
from road_ray.data.model_files import (
    MODEL_RECORD,
    check_hashes,
    head_for,
    head_or_only,
    locate_model,
    model_record,
)
from road_ray.data.task_and_dataset import Span, Tag, Task
from road_ray.data.tokenizer import check_vocabulary, load_tokenizer, pad_id_of
from road_ray.data.training_rows import with_trained_limits
from road_ray.distillation.teacher import Teacher
from road_ray.distillation.teacher_directory import (
    IDLE_FIELDS,
    TeacherOptions,
    check_equal_tokenizers,
    fingerprint_tokenizer,
    teacher_tokenizer,
)
from road_ray.errors import CheckpointError, ConfigError
from road_ray.evaluation.evaluate_split import (
    DecisionRule,
    batched_logits,
    evaluate_logits,
    evaluate_split,
)
from road_ray.evaluation.metrics import LABEL_THRESHOLDS, Thresholds, stored_threshold
from road_ray.models.architectures import longest_row
from road_ray.models.encoder import model_directory
from road_ray.models.load_weights import LabelMap, check_finite
from road_ray.models.multitask import load_trained
from road_ray.recipes.config import CombineConfig, EvaluateConfig
from road_ray.recipes.preflight_checks import fit_positions, require_init, require_splits
from road_ray.recipes.run_directory.model_record import with_trained_data, write_model_record
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.recipes.train.teaching_config import read_teacher_list
from road_ray.system.files import read_json, staged_directory, write_json_atomic
from road_ray.training.monitoring.metrics_journal import Console
from road_ray.training.run_context import RunContext
from road_ray.training.worker import Worker


def evaluate(config: EvaluateConfig, context: RunContext | None = None) -> Run:
    """Return metrics ``eval/<data set>/<metric>``; write predictions in the official layouts below
    ``predictions/``. The evaluation is repeated if the model or a data set has changed.
    """
    require_init(config.init)
    init = Path(config.init).expanduser()
    listed = read_teacher_list(init, "init").names if init.suffix == ".json" else []
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
    tasks = {name: find_dataset(name, data)[1] for name in data.datasets}
    if listed and len(names := {task.name for task in tasks.values()}) > 1:
        raise ConfigError(
            f"data.datasets = {', '.join(tasks)} are of tasks {', '.join(sorted(names))}\n"
            "  allowed: data sets of one task, that of the teachers\n"
            "  fix: evaluate them in several runs"
        )
    with (
        open_run_directory(config) as run_dir,
        staged_directory(run_dir / "predictions") as place,
    ):
        console = Console(config.console)
        if listed:
            metrics = evaluate_ensemble(
                [require_init(name) for name in listed],
                data,
                data.datasets,
                split=data.split,
                predictions=place,
                label_map=config.label_map,
                tune_on=tune_on,
                on_part=console.part,
            )
        else:
            metrics = _model_metrics(config, tasks, place, console)
        write_json_atomic(run_dir / "metrics.json", metrics)
    return Run(run_dir, metrics)


def _model_metrics(
    config: EvaluateConfig, tasks: Mapping[str, Task], place: Path, console: Console
) -> dict[str, float]:
    """Evaluate one model, on each data set of ``tasks`` with the head that was trained for it."""
    named = model_directory(require_init(config.init))
    directory, tune_on = locate_model(named), config.tune_threshold_on
    tokenizer = load_tokenizer(named)  # of the hub also one without tokenizer.json
    source = with_trained_limits(config.data, model_record(directory))
    # A mixture may have a head for each data set; one that it has not seen gets that of the first
    # of its task.
    seen = {name: head_for(directory, task, name) for name, task in tasks.items()}
    first = {tasks[name].name: head for name, head in reversed(seen.items()) if head}
    heads = {
        name: seen[name] or first.get(task.name) or head_or_only(directory, task, name)
        for name, task in tasks.items()
    }
    tuned: float | Thresholds | None = None
    metrics: dict[str, float] = {}
    for name in sorted(tasks, key=lambda name: name != tune_on):
        task, record = tasks[name], model_record(heads[name])
        model = load_trained(str(heads[name]), task, config.label_map)
        for further in tasks_of(name, config.data)[1:]:  # such as those of QuAC
            found = head_for(directory, further, further.name)
            if found and further.name not in model.tasks:
                trained = load_trained(str(found), further)
                model.heads.update(dict(trained.heads.items()))
                model.head_names |= trained.head_names
                model.tasks |= trained.tasks
        check_vocabulary(model.encoder.config.vocab_size, len(tokenizer), str(directory))
        of_tuned = tune_on is not None and task == tasks[tune_on]
        threshold = tuned if of_tuned else stored_threshold(record)
        longest = longest_row(model.encoder)
        read = _as_predicted(source, record, task, tokenizer, longest)
        split = load_split(name, source.split, read, tokenizer, evaluated=True)
        result = evaluate_split(
            model.to(Worker.alone().device),
            fit_positions(split, longest),
            DecisionRule(threshold, name == tune_on, record.get("temperature")),
            pad_id=pad_id_of(tokenizer),
            on_rows=partial(console.part, f"evaluating {name}"),
        )
        if name == tune_on:
            tuned = result.threshold
        result.write(place / name)
        metrics |= {f"eval/{name}/{metric}": value for metric, value in result.metrics.items()}
    return metrics


def _as_predicted(source: SourceConfig, *model: Any) -> SourceConfig:
    """Return the source with rows as long as ``road predict`` has them, by ``row_lengths``."""
    length = source.max_length_tokens or row_lengths(*model)[0]
    return source.model_copy(update={"max_length_tokens": length})


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
    """Return ``eval/<data set>/ensemble_<metric>`` of the models on a split of the data sets, with
    the limits of the first one's training where ``source`` has none.

    The no-answer threshold of the mean is tuned on the data set ``tune_on`` and used on all. With
    None there is no threshold, because none is stored for a mean. Each model reads the texts with
    its own tokenizer; raises ``CheckpointError`` for different ones of answers and tags, which are
    those of tokens.
    """
    _, task = find_dataset(names[0], source)
    models = [locate_model(model_directory(str(directory))) for directory in directories]
    source = with_trained_limits(source, model_record(models[0]))
    places = [head_or_only(model, task, names[0]) for model in models]
    if isinstance(task.kind, Span | Tag):
        check_equal_tokenizers(places)
    options = TeacherOptions(label_map=label_map, precision="fp32")
    encoded: dict[str, tuple[int, dict[str, Split]]] = {}  # padding and rows by tokenizer
    own = ""
    sums: dict[str, list[NDArray[np.float32]]] = {}
    for number, place in enumerate(places, start=1):  # one model is in memory at a time
        teacher = Teacher(place, task, options, Worker.alone().device)
        if not own or teacher_tokenizer(place) is not None:
            tokenizer = load_tokenizer(place)
            own = fingerprint_tokenizer(tokenizer)
        if own not in encoded:
            read = _as_predicted(source, model_record(place), task, tokenizer, teacher.positions)
            rows_of = {n: load_split(n, split, read, tokenizer, evaluated=True) for n in names}
            encoded[own] = pad_id_of(tokenizer), rows_of
        pad_id, rows_of = encoded[own]
        for name, rows in rows_of.items():
            title = f"evaluating {name}, model {number} of {len(places)}"
            told = None if on_part is None else partial(on_part, title)
            features = fit_positions(rows, teacher.positions).features
            logits = batched_logits(teacher, features, task.kind, pad_id, told)
            sums[name] = list(map(np.add, sums[name], logits)) if name in sums else logits
    _, splits = next(iter(encoded.values()))
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


# Entries of a record that are of one training, not of the mean of several.
_OF_ONE_MODEL = {"files", "seed", "metrics", "no_answer_threshold", LABEL_THRESHOLDS, "temperature"}


def combine(config: CombineConfig, context: RunContext | None = None) -> Run:
    """Join models and return ``eval/<data set>/<metric>``; the model of a soup is in ``hf/``."""
    if done := load_finished_run(config):
        return done
    names, _ = read_teacher_list(Path(config.init), "init")
    models = [locate_model(model_directory(name)) for name in names]
    data = with_trained_limits(config.data, model_record(models[0]))  # the same for all
    tuned_on = config.tune_threshold_on or data.datasets[0]
    entry, task = find_dataset(tuned_on, data)
    metric = "best_f1" if isinstance(task.kind, Span) else entry.figures[0]

    def score(chosen: Sequence[Path]) -> float:
        with tempfile.TemporaryDirectory(dir=run_dir, prefix=".soup-") as place:
            average_models(chosen, Path(place) / "hf")
            metrics = evaluate_ensemble([Path(place) / "hf"], data, [tuned_on], tune_on=tuned_on)
        return metrics[f"eval/{tuned_on}/ensemble_{metric}"]

    with open_run_directory(config) as run_dir:
        if config.combine == "greedy":
            models = greedy_members(models, score)
        if config.combine != "ensemble":
            average_models(models, run_dir / "hf")
            models = [run_dir / "hf"]
        evaluated = evaluate_ensemble(models, data, data.datasets, tune_on=tuned_on)
        metrics = {name.replace("/ensemble_", "/"): value for name, value in evaluated.items()}
        write_json_atomic(run_dir / "metrics.json", metrics)
    return Run(run_dir, metrics)


def greedy_members(models: Sequence[Path], score: Callable[[Sequence[Path]], float]) -> list[Path]:
    """Return the models of a greedy soup: from the best to the worst, each stays if the ``score``
    of the mean with it is not below that without it.
    """
    alone = {model: score([model]) for model in models}
    first, *others = sorted(models, key=alone.__getitem__, reverse=True)
    chosen, best = [first], alone[first]
    for model in others:
        found = score([*chosen, model])
        if found >= best:
            chosen, best = [*chosen, model], found
    return chosen


def average_models(models: Sequence[Path], output: Path) -> None:
    """Write a model with the mean of the models' weights, with tokenizer, record and card of the
    first one. The mean is taken in fp64 and has the dtype of the weights.

    Raises ``CheckpointError`` for models that differ in configuration, labels or their order,
    tokenizer, integers, or names and shapes of weights, and for weights that are not finite.
    """
    check_equal_tokenizers(models)
    first, *others = models
    for other in others:
        ours, theirs = (read_json(model / "config.json") for model in (first, other))
        names = {*ours, *theirs}.difference(IDLE_FIELDS)
        if differing := sorted(name for name in names if ours.get(name) != theirs.get(name)):
            raise CheckpointError(
                f"{other / 'config.json'}: {differing[0]} differs from that of {first}\n"
                "  fix: average models of one architecture, with the same labels in one order"
            )
    record = model_record(first)
    with staged_directory(output) as staged:
        for path in first.iterdir():
            if path.is_file() and path.suffix != ".safetensors" and path.name != MODEL_RECORD:
                shutil.copyfile(path, staged / path.name)
        for path in sorted(first.glob("*.safetensors")):
            save_file(_mean(path.name, models), staged / path.name, metadata={"format": "pt"})
        kept = {name: value for name, value in record.items() if name not in _OF_ONE_MODEL}
        write_model_record(staged, **kept, averaged=list(map(str, models)))


def _mean(name: str, models: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the tensors of a file that every model has."""
    mean: dict[str, Tensor] = {}
    shapes: dict[str, tuple[torch.Size, torch.dtype]] = {}
    for model in models:
        check_hashes(model, weights=True)
        tensors: dict[str, Tensor] = load_file(model / name) if (model / name).is_file() else {}
        check_finite(model / name, tensors)
        found = {key: (x.shape, x.dtype) for key, x in tensors.items()}
        shapes = shapes or found
        if found != shapes or not found:
            raise CheckpointError(
                f"{model / name}: its weights are not those of {models[0]} in name, shape and "
                "dtype\n  fix: average models of one architecture"
            )
        for key, x in tensors.items():
            # The order of labels in a head of the user's own, above all.
            if key in mean and not x.is_floating_point() and not torch.equal(mean[key], x):
                raise CheckpointError(
                    f"{model / name}: the integers {key} differ from those of {models[0]}\n"
                    "  fix: average models of one architecture, with the same labels in one order"
                )
            share = x.double() / len(models) if x.is_floating_point() else x
            mean[key] = mean[key] + share if key in mean and x.is_floating_point() else share
    return {key: x.to(shapes[key][1]) for key, x in mean.items()}
