"""Evaluation of an ensemble: the mean of several models' logits, evaluated like one model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.batching import Batch
from road_ray.data.config import SourceConfig
from road_ray.data.load_split import Split, find_dataset, load_split
from road_ray.data.task_and_dataset import Task
from road_ray.data.tokenizer import load_tokenizer, pad_id_of
from road_ray.distillation.ensemble.teacher import Teacher, inputs_of
from road_ray.distillation.teacher_directory import check_equal_tokenizers
from road_ray.evaluation.evaluate_split import batched_logits, evaluate_logits
from road_ray.models.encoder import model_directory
from road_ray.models.heads.label_order import LabelMap
from road_ray.training.worker import Worker

OnPart = Callable[[str, int, int], None]
"""Called with a title, the number of evaluated rows and of all rows."""


def evaluate_ensemble(
    directories: Sequence[str | Path],
    source: SourceConfig,
    names: Sequence[str],
    *,
    split: str = "dev",
    predictions: Path | None = None,
    label_map: LabelMap | None = None,
    tune_on: str | None = None,
    on_part: OnPart | None = None,
) -> dict[str, float]:
    """Return ``eval/<data set>/ensemble_<metric>`` of the models on a split of the data sets.

    The no-answer threshold of the mean is tuned on the data set ``tune_on`` and used on all. With
    None there is no threshold, because none is stored for a mean. Raises ``CheckpointError`` for
    models with different tokenizers.
    """
    places = [model_directory(str(directory)) for directory in directories]
    check_equal_tokenizers(places)  # all of them get the ids of the first one's
    tokenizer = load_tokenizer(places[0])
    splits = {name: load_split(name, split, source, tokenizer, judged=True) for name in names}
    _, task = find_dataset(names[0], source)
    pad_id = pad_id_of(tokenizer)
    means = mean_logits(places, task, splits, pad_id, label_map, on_part)
    figures: dict[str, float] = {}
    threshold: float | None = None
    for name in sorted(splits, key=lambda name: name != tune_on):
        result = evaluate_logits(splits[name], means[name], threshold, tune=name == tune_on)
        threshold = result.threshold
        if predictions is not None:
            result.write(predictions / name)
        figures |= {f"eval/{name}/ensemble_{key}": value for key, value in result.figures.items()}
    return figures


def mean_logits(
    directories: Sequence[str],
    task: Task,
    splits: Mapping[str, Split],
    pad_id: int,
    label_map: LabelMap | None = None,
    on_part: OnPart | None = None,
) -> dict[str, list[NDArray[np.float32]]]:
    """Return the mean over models of the logits of every row, by split. One model is in memory at a
    time.
    """
    sums: dict[str, list[NDArray[np.float32]]] = {}
    for number, directory in enumerate(directories, start=1):
        device = Worker.alone().device
        forward = partial(
            _teacher_logits, Teacher(directory, task, label_map=label_map, device=device)
        )
        for name, split in splits.items():
            title = f"evaluating {name}, model {number} of {len(directories)}"
            on_rows = None if on_part is None else partial(on_part, title)
            logits = batched_logits(forward, split.features, task.kind, pad_id, on_rows)
            before = sums.get(name)
            sums[name] = logits if before is None else list(map(np.add, before, logits))
    return {
        name: [row / np.float32(len(directories)) for row in rows] for name, rows in sums.items()
    }


def _teacher_logits(teacher: Teacher, batch: Batch) -> Tensor:
    return teacher.logits(**inputs_of(batch))
