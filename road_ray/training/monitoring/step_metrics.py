"""Rows of the journal: losses, throughput, padding and times of the steps since the last row."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from road_ray.data.batching import Batch
from road_ray.objectives.base import Objective
from road_ray.training.monitoring.collapse import CollapseMonitor
from road_ray.training.optimization.gradient_accumulation import StepResult
from road_ray.training.performance.mfu import ModelFlopsUtilization
from road_ray.training.run_context import Training
from road_ray.training.worker import Worker


class StepMetrics:
    """Sums over the steps since the last row; ``row`` is the last one that was written."""

    def __init__(
        self,
        trained: Objective,
        training: Training,
        worker: Worker,
        autocast: torch.dtype | None,
        row: Mapping[str, float],
    ) -> None:
        self.row = dict(row)
        self._training, self._worker = training, worker
        # By default 50 steps between rows, fewer in a short run, for 20 points in a curve.
        default = min(50, max(1, training.total_steps // 20))
        self._every = training.config.log_every_steps or default
        self._utilization = ModelFlopsUtilization(trained, worker, autocast)
        self._collapse = CollapseMonitor(training.journal, training.total_steps)
        self._clear()

    def _clear(self) -> None:
        self._sums: dict[str, list[Tensor]] = {}
        self._stats: dict[str, float] = defaultdict(float)
        self._seconds = self._data_seconds = self._communication_seconds = 0.0
        self._steps = self._tokens = self._examples = self._positions = 0

    def due(self, done: int) -> bool:
        """Return True when step ``done`` gets a row."""
        return done == self._training.total_steps or done % self._every == 0

    def add(
        self,
        done: int,
        result: StepResult,
        passes: Sequence[Batch],
        data_seconds: float,
        started: float,
    ) -> None:
        """Add step ``done``, which began at ``started`` of ``time.perf_counter()``; before a row,
        wait for the device, so that the seconds of all steps together are right. The ``stats`` of
        batches are summed too (teacher waits, histograms).
        """
        if self.due(done):
            self._worker.synchronize()
        self._seconds += time.perf_counter() - started
        for name, (total, count) in result.sums.items():
            # Left on the device: reading it would wait.
            self._sums.setdefault(name, []).append(torch.stack([total.float(), count.float()]))
        for batch in passes:
            self._tokens += int(batch["attention_mask"].sum())
            self._positions += batch["attention_mask"].numel()
            self._examples += len(batch["input_ids"])
            for name, value in batch.get("stats", {}).items():
                self._stats[name] += float(value)
        self._data_seconds += data_seconds
        self._communication_seconds += result.communication_seconds
        self._steps += 1

    def write(self, done: int, norms: Mapping[str, float], passes: Sequence[Batch]) -> None:
        """Write the row of step ``done``, summed over all workers, and start anew; collective."""
        self.row = self._utilization.of({**self._collect(), **norms}, passes)
        self._training.journal.write(done, self.row)
        self._collapse.check(done, self.row)

    def _collect(self) -> dict[str, float]:
        worker, steps, seconds = self._worker, self._steps, self._seconds
        # Workers may have different names, for example if only one has dropped a teacher.
        names = worker.union(name for name in self._stats if not name.startswith("time/"))
        stats = [self._stats[name] for name in names]
        counts = torch.tensor(
            [self._tokens, self._examples, self._positions, *stats], dtype=torch.float64
        )
        counted = worker.total(counts.float().to(worker.device)).tolist()
        tokens, examples, positions, *totals = counted
        row = {}
        for name, pairs in self._sums.items():
            total, count = worker.total(torch.stack(pairs).sum(0)).tolist()
            row[name] = total / max(count, 1.0)
        row |= dict(zip(names, totals, strict=True))
        row |= {n: value / steps for n, value in self._stats.items() if n.startswith("time/")}
        row["time/step_seconds"] = seconds / steps
        row["time/data_seconds"] = self._data_seconds / steps
        if worker.size > 1:
            row["time/communication_seconds"] = self._communication_seconds / steps
        row["data/padding_fraction"] = 1 - tokens / max(positions, 1.0)
        row["time/tokens_per_second"] = tokens / seconds
        row["time/examples_per_second"] = examples / seconds
        self._clear()
        return row
