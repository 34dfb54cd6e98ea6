"""Model FLOPs utilization: the share of the device's peak FLOP/s that the training uses."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache

import torch
from torch.utils.flop_counter import FlopCounterMode

from road_ray.data.batching import Batch, to_device
from road_ray.objectives.base import Objective
from road_ray.training.worker import Worker

_SIDE = {"cpu": 512, "cuda": 4096}  # of the square matrices that measure the peak
# TFLOP/s in bf16 and in fp32 without TF32, dense, by a part of the device's name. Source: NVIDIA's
# data sheets; the first part that fits counts.
_DATA_SHEETS = {
    "H100 PCIe": (756.0, 51.0),
    "H100 NVL": (835.0, 60.0),
    "H100": (989.0, 67.0),
    "H200": (989.0, 67.0),
    "A100": (312.0, 19.5),
    "L40S": (362.0, 91.6),
    "L4": (121.0, 30.3),
}
_PRODUCTS = 5  # the fastest counts
_BACKWARD = 2  # FLOPs of a backward pass, as a multiple of the forward pass
SHARE = "time/mfu"


class ModelFlopsUtilization:
    """Adds ``time/mfu`` to rows of the journal. Counts the FLOPs of a step at the first row, and
    again when batches have become twice as long.
    """

    def __init__(self, objective: Objective, worker: Worker, autocast: torch.dtype | None) -> None:
        self._objective, self._worker, self._autocast = objective, worker, autocast
        self._flops_per_position, self._counted_width = 0.0, 0

    def of(self, row: Mapping[str, float], passes: Sequence[Batch]) -> dict[str, float]:
        """Return the row with ``time/mfu``, between 0 and 1. ``passes`` are the batches of a
        typical step; padding counts.
        """
        width = max(batch["attention_mask"].shape[-1] for batch in passes)
        if width >= 2 * self._counted_width:  # attention takes more FLOPs a token then
            self._counted_width = width
            positions = sum(batch["attention_mask"].numel() for batch in passes)
            given = self._worker, self._autocast
            flops = sum(forward_flops(self._objective, batch, *given) for batch in passes)
            self._flops_per_position = (1 + _BACKWARD) * flops / max(positions, 1)
        rate = peak_flops(self._worker.device, self._autocast or torch.float32)
        positions_per_second = row["time/tokens_per_second"] / (1 - row["data/padding_fraction"])
        utilization = self._flops_per_position * positions_per_second / (rate * self._worker.size)
        return {**row, SHARE: utilization}


@torch.no_grad()
def forward_flops(
    objective: Objective, batch: Batch, worker: Worker, autocast: torch.dtype | None
) -> int:
    """Return the FLOPs of one forward pass as ``torch.utils.flop_counter`` counts them; on a CPU it
    does not count attention.
    """
    with (
        # A compiled encoder that is first met under the counter is never compiled again.
        torch.compiler.set_stance("force_eager"),
        FlopCounterMode(display=False) as counter,
        torch.autocast(worker.device.type, dtype=autocast, enabled=autocast is not None),
    ):
        objective(to_device(batch, worker.device))
    return int(counter.get_total_flops())


def peak_flops(device: torch.device, dtype: torch.dtype) -> float:
    """Return the FLOP/s of dense products of ``dtype`` on a device: of its data sheet where it is
    known, so that shares can be compared with published ones, else as measured.
    """
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    for part, (reduced, full) in _DATA_SHEETS.items():
        if part in name:
            return 1e12 * (full if dtype == torch.float32 else reduced)
    return measured_peak_flops(device.type, dtype)


@cache
def measured_peak_flops(device: str, dtype: torch.dtype) -> float:
    """Return the FLOP/s of the product of two square matrices, measured once a process."""
    side = _SIDE.get(device, _SIDE["cpu"])
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    best = float("inf")
    for _ in range(_PRODUCTS):
        started = time.perf_counter()
        product = a @ b
        float(product[0, 0])  # waits for the device
        best = min(best, time.perf_counter() - started)
    return 2 * side**3 / best
