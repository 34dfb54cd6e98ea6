"""Copies of batches to the device, on a GPU one step ahead of the step that needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from road_ray.data.batching import Batch, to_device
from road_ray.objectives.base import Objective


def one_ahead(
    steps: Iterable[Sequence[Batch]], objective: Objective, device: torch.device
) -> Iterator[tuple[Sequence[Batch], Sequence[Batch]]]:
    """Yield the prepared batches of each step, and the same batches on the device. On a GPU the
    copies of a step start before the previous step computes.
    """
    waiting = None
    for passes in steps:
        prepared = [objective.prepare(batch) for batch in passes]
        moved = [to_device(batch, device) for batch in prepared]
        if device.type != "cuda":
            yield prepared, moved
            continue
        if waiting is not None:
            yield waiting
        waiting = prepared, moved
    if waiting is not None:
        yield waiting


def placed(batch: Batch, objective: Objective, device: torch.device) -> Batch:
    """Return the batch as ``objective`` reads it, on ``device``; not copied if already there."""
    return to_device(objective.prepare(batch), device)
