"""Rows of the journal: losses and speed summed up over steps, and the detection of a collapse."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from road_ray.data.batching import Batch
from road_ray.objectives.base import Objective
from road_ray.training.gradients import StepResult
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.profile import ModelFlopsUtilization
from road_ray.training.run_context import Training
from road_ray.training.worker import Worker, full_tensor

_GRACE = 0.25  # of the run, in which the discriminator may still call every token original
_ROWS = 5  # consecutive rows of the journal
_ADVICE = {
    "detector_collapse": "the discriminator calls every token original: start from a trained "
    "generator (generator.init), lower optimizer.peak_lr, lengthen the warm-up or raise "
    "objective.choose_fraction",
    "generator_collapse": "the generator draws the same few tokens: lower optimizer.peak_lr, lower "
    "objective.discriminator_weight, or raise objective.options.temperature",
}


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
        self._stats["time/step_seconds"] += time.perf_counter() - started
        self._stats["time/data_seconds"] += data_seconds
        if self._worker.size > 1:
            self._stats["time/communication_seconds"] += result.communication_seconds
        for name, (total, count) in result.sums.items():
            # Left on the device: reading it would wait.
            self._sums.setdefault(name, []).append(torch.stack([total.float(), count.float()]))
        for batch in passes:
            self._tokens += int(batch["attention_mask"].sum())
            self._positions += batch["attention_mask"].numel()
            self._examples += len(batch["input_ids"])
            for name, value in batch.get("stats", {}).items():
                self._stats[name] += float(value)
        self._steps += 1

    def write(self, done: int, norms: Mapping[str, float], passes: Sequence[Batch]) -> None:
        """Write the row of step ``done``, summed over all workers, and start anew; collective."""
        worker, steps, seconds = self._worker, self._steps, self._stats["time/step_seconds"]
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
        row["data/padding_fraction"] = 1 - tokens / max(positions, 1.0)
        row["time/tokens_per_second"] = tokens / seconds
        row["time/examples_per_second"] = examples / seconds
        self._clear()
        self.row = self._utilization.of({**row, **norms}, passes)
        self._training.journal.write(done, self.row)
        self._collapse.check(done, self.row)


def gradient_norms(objective: Objective) -> dict[str, float]:
    """Return the gradient norm of each network of an objective; shared parameters count in both.
    Empty for objectives with one network.
    """
    parts = {
        name: [p.grad for p in part.parameters() if p.grad is not None]
        for name, part in objective.named_children()
        if name != "encoder"
    }
    gradients_of = {name: gradients for name, gradients in parts.items() if gradients}
    if len(gradients_of) < 2:
        return {}
    norms = torch.stack(
        [full_tensor(torch.nn.utils.get_total_norm(gradients_of[name])) for name in gradients_of]
    )
    return {
        f"train/grad_norm_{name}": value
        for name, value in zip(gradients_of, norms.tolist(), strict=True)
    }


class CollapseMonitor:
    """Checks rows of the journal and writes an event when a network has collapsed."""

    def __init__(self, journal: Journal, total_steps: int) -> None:
        self._journal, self._total = journal, total_steps
        self._bad: dict[str, int] = dict.fromkeys(_ADVICE, 0)

    def check(self, step: int, row: Mapping[str, float]) -> None:
        """Check one row; five bad rows in a row make an event."""
        if step < _GRACE * self._total:
            return
        recall = row.get("train/detection_recall", 1.0)
        area = row.get("train/detection_auc", 1.0)
        signs = {
            "detector_collapse": recall < 0.005 and abs(area - 0.5) < 0.01,
            "generator_collapse": row.get("train/generator_entropy", 1.0) < 0.02,
        }
        for kind, present in signs.items():
            self._bad[kind] = self._bad[kind] + 1 if present else 0
            if self._bad[kind] == _ROWS:
                self._journal.event(kind, step=step, advice=_ADVICE[kind])
