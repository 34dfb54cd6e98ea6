"""Gradient accumulation: the passes of a step are the pieces of one batch, or batches of several
data sets whose gradients are averaged; each loss is divided by the count over all workers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from road_ray.data.batching import Batch
from road_ray.objectives.base import Losses, Objective
from road_ray.training.worker import Worker


@dataclass
class StepResult:
    """Sums and counts of one step on this worker by name, without gradient, and its row numbers.

    ``loss`` is the mean over all workers, so it is finite on all of them or on none.
    """

    sums: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    datasets: list[str] = field(default_factory=list)
    rows: list[Tensor] = field(
        default_factory=list
    )  # left on the device: reading them would synchronize
    loss: float | Tensor = 0.0
    communication_seconds: float = 0.0  # of this worker, not overlapped with computation

    def add(self, name: str, total: Tensor, count: Tensor) -> None:
        """Add to the sum and the count of ``name``."""
        if name in self.sums:
            total, count = total + self.sums[name][0], count + self.sums[name][1]
        self.sums[name] = (total, count)


def backward(
    wrapped: nn.Module,
    objective: Objective,
    passes: Sequence[Batch],
    worker: Worker,
    *,
    seed: int,
    step: int,
    autocast: torch.dtype | None,
    one_batch: bool = False,
) -> StepResult:
    """Compute the gradient of a step of several passes, prepared and on the device, each term
    divided by its count over all workers: the mean of per-worker means would be wrong as soon as
    counts differ.

    With ``one_batch`` the passes are the pieces of one larger batch: a term's sums over all of them
    are divided by the sum of their counts, so the gradient is that of the larger batch. Otherwise
    it is the mean over the passes (ROaD part 1, Algorithm 1). Dropout is seeded by (seed, step,
    pass, rank), so no generator state has to be saved.
    """
    result = StepResult()
    began = time.perf_counter()
    counts = _counted([objective.counts(batch) for batch in passes], worker, one_batch=one_batch)
    result.communication_seconds = time.perf_counter() - began
    for number, (batch, count) in enumerate(zip(passes, counts, strict=True)):
        pass_seed = np.random.SeedSequence((seed, 3, step, number, worker.rank))
        torch.manual_seed(int(pass_seed.generate_state(1)[0]))
        # One all-reduce a step is enough. FSDP has no no_sync: it reduces every pass, or each
        # worker would hold the whole gradient.
        skip_reduce = number + 1 < len(passes)
        with getattr(wrapped, "no_sync", nullcontext)() if skip_reduce else nullcontext():
            with torch.autocast(worker.device.type, dtype=autocast, enabled=autocast is not None):
                losses: Losses = wrapped(batch)
            terms = losses.terms
            totals = torch.stack([term.total.float() for term in terms.values()])
            # Filled on the device, because a copy from the host would wait for it.
            weights = torch.stack([torch.full_like(totals[0], t.weight) for t in terms.values()])
            shares = weights / torch.stack([count[name] for name in terms]).clamp(min=1)
            if not one_batch:
                shares = shares / len(passes)
            # DDP averages gradients over workers, but the loss is a sum over workers.
            (totals @ shares * worker.size).backward()  # type: ignore[no-untyped-call]
        result.loss = result.loss + totals.detach() @ shares
        for name, term in terms.items():
            result.add(f"train/{name}", term.total.detach(), term.count)
        for name, (total, number_of) in losses.metrics.items():
            result.add(f"train/{name}", total, number_of)
        result.datasets.append(str(batch.get("dataset", "")))
        if "rows" in batch:
            result.rows.append(batch["rows"])
    began = time.perf_counter()
    if objective.sparse:
        worker.average_gradients(objective)
    result.loss = worker.total(torch.as_tensor(result.loss))
    result.communication_seconds += time.perf_counter() - began + _exchange_seconds(wrapped)
    return result


def _counted(
    counts: Sequence[Mapping[str, Tensor]], worker: Worker, *, one_batch: bool
) -> list[dict[str, Tensor]]:
    """Return the counts of each pass over all workers; with ``one_batch`` those of all passes
    together, for each of them.
    """
    whole = worker.total(torch.stack([n.float() for count in counts for n in count.values()]))
    values = iter(whole.unbind())
    summed = [{name: next(values) for name in count} for count in counts]
    if not one_batch:
        return summed
    together: dict[str, Tensor] = {}
    for count in summed:
        for name, value in count.items():
            together[name] = together[name] + value if name in together else value
    return [together] * len(summed)


def _exchange_seconds(wrapped: nn.Module) -> float:
    """Return the seconds of gradient all-reduce not overlapped with computation, a mean over the
    passes that PyTorch samples; 0 without DDP.
    """
    times: dict[str, Any] = getattr(wrapped, "_get_ddp_logging_data", dict)()
    exchanged = times.get("avg_backward_comm_time", 0)
    return float(exchanged - times.get("avg_backward_compute_comm_overlap_time", 0)) / 1e9
