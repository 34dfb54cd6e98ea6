"""Evaluation of an ensemble: the mean of several models' logits, evaluated like one model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.batching import Batch
from road_ray.data.config import SourceConfig
from road_ray.data.load_split import find_dataset, load_split
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
    sums: dict[str, list[NDArray[np.float32]]] = {}
    for number, place in enumerate(places, start=1):  # one model is in memory at a time
        teacher = Teacher(place, task, label_map=label_map, device=Worker.alone().device)
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
    figures: dict[str, float] = {}
    threshold: float | None = None
    for name in sorted(splits, key=lambda name: name != tune_on):
        mean = [row / np.float32(len(places)) for row in sums[name]]
        result = evaluate_logits(splits[name], mean, threshold, tune=name == tune_on)
        threshold = result.threshold
        if predictions is not None:
            result.write(predictions / name)
        figures |= {f"eval/{name}/ensemble_{key}": value for key, value in result.figures.items()}
    return figures


def _logits(teacher: Teacher, batch: Batch) -> Tensor:
    return teacher.logits(**inputs_of(batch))
