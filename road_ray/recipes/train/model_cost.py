"""Parameters, size and speed of a model, to compare a smaller student with its ``init``."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import torch

from road_ray.data.batching import Batch, pad, to_device
from road_ray.data.features.examples_and_features import Features
from road_ray.models.multitask import MultitaskModel

_ROWS = 8  # of the batch that is timed
_REPEATS = 3  # the fastest counts


def model_cost(
    model: MultitaskModel, rows: Features, *, pad_id: int, device: torch.device
) -> dict[str, float]:
    """Return ``parameters``, ``megabytes`` (fp32) and ``rows_per_second`` of a forward pass over
    the first rows, in fp32 on the threads that PyTorch has. The model's mode does not change.
    """
    count = sum(parameter.numel() for parameter in model.parameters())
    numbers = np.arange(min(_ROWS, len(rows)))
    batch: Batch = {**pad(rows, numbers, pad_id=pad_id), "task": rows.task}
    batch, training = to_device(batch, device), model.training
    model.to(device).eval()
    seconds = []
    with torch.inference_mode():
        for _ in range(1 + _REPEATS):  # the first warms up
            began = perf_counter()
            model(batch).cpu()
            seconds.append(perf_counter() - began)
    model.train(training)
    speed = len(numbers) / min(seconds[1:])
    return {"parameters": count, "megabytes": count * 4 / 2**20, "rows_per_second": speed}
