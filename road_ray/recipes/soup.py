"""Models of one architecture joined without a student: the mean of their logits, or a soup, which
is one model with the mean of their weights. Source: Wortsman et al. 2022, Model soups.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from road_ray.data.load_split import find_dataset
from road_ray.data.model_files import MODEL_RECORD, check_hashes, locate_model
from road_ray.data.task_and_dataset import Span
from road_ray.data.training_rows import with_trained_limits
from road_ray.distillation.teacher_directory import IDLE_FIELDS, check_equal_tokenizers
from road_ray.errors import CheckpointError
from road_ray.evaluation.metrics import LABEL_THRESHOLDS
from road_ray.models.encoder import model_directory
from road_ray.models.load_weights import check_finite
from road_ray.recipes.config import CombineConfig
from road_ray.recipes.evaluate import evaluate_ensemble
from road_ray.recipes.run_directory.model_record import model_record, write_model_record
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.recipes.train.teaching_config import read_teacher_list
from road_ray.system.files import read_json, staged_directory, write_json_atomic
from road_ray.training.run_context import RunContext

# Entries of a record that are of one training, not of the mean of several.
_OF_ONE_MODEL = {"files", "seed", "metrics", "no_answer_threshold", LABEL_THRESHOLDS, "temperature"}


def combine(config: CombineConfig, context: RunContext | None = None) -> Run:
    """Join models and return ``eval/<data set>/<metric>``; the model of a soup is in ``hf/``."""
    if done := load_finished_run(config):
        return done
    names, _ = read_teacher_list(Path(config.init), "init")
    models = [locate_model(model_directory(name)) for name in names]
    data = with_trained_limits(config.data, model_record(models[0]))
    tuned_on = config.tune_threshold_on or data.datasets[0]
    entry, task = find_dataset(tuned_on, data)
    metric = "best_f1" if isinstance(task.kind, Span) else entry.metrics[0]

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
