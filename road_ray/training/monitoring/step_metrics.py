"""Metrics of the steps since the last row of the journal: losses, throughput, padding, times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from road_ray.data.batching import Batch
from road_ray.training.optimization.gradient_accumulation import StepResult
from road_ray.training.worker import Worker


class StepMetrics:
    """Sums over the steps since the last row of the journal."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._sums: dict[str, list[Tensor]] = {}
        self._stats: dict[str, float] = defaultdict(float)
        self._seconds = self._data_seconds = self._communication_seconds = 0.0
        self._steps = self._tokens = self._examples = self._positions = 0

    def add(
        self,
        result: StepResult,
        passes: Sequence[Batch],
        *,
        data_seconds: float,
        step_seconds: float,
    ) -> None:
        """Add one step. The ``stats`` of batches are summed too (teacher waits, histograms)."""
        for name, (total, count) in result.sums.items():
            pair = torch.stack([total.float(), count.float()])
            self._sums.setdefault(name, []).append(pair)
        for batch in passes:
            self._tokens += int(batch["attention_mask"].sum())
            self._positions += batch["attention_mask"].numel()
            self._examples += len(batch["input_ids"])
            for name, value in batch.get("stats", {}).items():
                self._stats[name] += float(value)
        self._seconds += step_seconds
        self._data_seconds += data_seconds
        self._communication_seconds += result.communication_seconds
        self._steps += 1

    def collect(self, worker: Worker) -> dict[str, float]:
        """Return the journal row since the last call, summed over all workers, and reset."""
        totals: dict[str, Any] = {
            name: torch.stack(pairs).sum(0) for name, pairs in self._sums.items()
        }
        # Workers may have different names, for example if only one has dropped a teacher.
        names = worker.union(name for name in self._stats if not name.startswith("time/"))
        shared = {name: self._stats[name] for name in names}
        counts = torch.tensor(
            [self._tokens, self._examples, self._positions, *shared.values()], dtype=torch.float64
        )
        counted = worker.total(counts.float().to(worker.device)).tolist()
        row = {}
        for name, pair in totals.items():
            total, count = worker.total(pair).tolist()
            row[name] = total / max(count, 1.0)
        row |= dict(zip(shared, counted[3:], strict=True))
        row |= {
            name: value / self._steps
            for name, value in self._stats.items()
            if name.startswith("time/")
        }
        row["time/step_seconds"] = self._seconds / self._steps
        row["time/data_seconds"] = self._data_seconds / self._steps
        if worker.size > 1:
            row["time/communication_seconds"] = self._communication_seconds / self._steps
        row["data/padding_fraction"] = 1 - counted[0] / max(counted[2], 1.0)
        row["time/tokens_per_second"] = counted[0] / self._seconds
        row["time/examples_per_second"] = counted[1] / self._seconds
        self._clear()
        return row
