"""How much of what the device can multiply in a second goes into the training."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache

import torch
from torch.utils.flop_counter import FlopCounterMode

from road_ray.data.batching import Batch, to_device
from road_ray.objectives.base import Objective
from road_ray.training.worker import Worker

_SIDE = {"cpu": 512, "cuda": 4096}  # of square matrices that keep the device busy
_PRODUCTS = 5  # the best counts
_BACKWARD = 2  # products of a backward pass, in those of the forward pass
SHARE = "time/mfu"


class ModelFlopsUtilization:
    """Counts the products of one step, at the first row of the journal and where rows have become
    twice as long, and tells the share in every row.
    """

    def __init__(self, objective: Objective, worker: Worker, autocast: torch.dtype | None) -> None:
        self._objective, self._worker, self._autocast = objective, worker, autocast
        self._flops_per_place, self._counted_width = 0.0, 0

    def of(self, row: Mapping[str, float], passes: Sequence[Batch]) -> dict[str, float]:
        """The row with ``time/mfu``: 1 would be nothing but products, at the best rate.

        ``passes`` are those of a typical step; padding is multiplied too and counts.
        """
        width = max(batch["attention_mask"].shape[-1] for batch in passes)
        if width >= 2 * self._counted_width:  # attention multiplies more for each token then
            self._counted_width = width
            places = sum(batch["attention_mask"].numel() for batch in passes)
            flops = sum(self._flops(batch) for batch in passes)
            self._flops_per_place = (1 + _BACKWARD) * flops / max(places, 1)
        rate = measured_peak_flops(self._worker.device.type, self._autocast or torch.float32)
        places_per_second = row["time/tokens_per_second"] / (1 - row["data/padding_fraction"])
        share = self._flops_per_place * places_per_second / (rate * self._worker.size)
        return {**row, SHARE: share}

    def _flops(self, batch: Batch) -> int:
        return forward_flops(self._objective, batch, self._worker, self._autocast)


@torch.no_grad()
def forward_flops(
    objective: Objective, batch: Batch, worker: Worker, autocast: torch.dtype | None
) -> int:
    """Floating-point operations of the products of one forward pass, as torch counts them: those
    of attention on a GPU only, on a CPU it has no count for them.
    """
    with (
        FlopCounterMode(display=False) as counter,
        torch.autocast(worker.device.type, dtype=autocast, enabled=autocast is not None),
    ):
        objective(to_device(batch, worker.device))
    return int(counter.get_total_flops())


@cache
def measured_peak_flops(device: str, dtype: torch.dtype) -> float:
    """Operations a second in the product of two square matrices, measured; once a process."""
    side = _SIDE.get(device, _SIDE["cpu"])
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    best = float("inf")
    for _ in range(_PRODUCTS):
        began = time.perf_counter()
        product = left @ right
        float(product[0, 0])  # waits for the device
        best = min(best, time.perf_counter() - began)
    return 2 * side**3 / best
