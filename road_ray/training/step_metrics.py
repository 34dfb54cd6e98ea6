"""Rows of the journal: losses and speed summed up over steps, and the detection of a collapse."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from road_ray.data.batching import Batch
from road_ray.objectives.base import Objective
from road_ray.training.gradients import StepResult
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.profile import ModelFlopsUtilization
from road_ray.training.run_context import Training
from road_ray.training.worker import full_tensor

_GRACE = 0.25  # of the run, in which the discriminator may still call every token original
_ROWS = 5  # consecutive rows of the journal
_SIZES = ("tokens", "positions", "examples", "time/steps")
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
        autocast: torch.dtype | None,
        state: Mapping[str, Any],
    ) -> None:
        self.row: dict[str, float] = dict(state.get("row", {}))
        self._training, self._worker = training, training.worker
        # By default 50 steps between rows, fewer in a short run, for 20 points in a curve.
        default = min(50, max(1, training.total_steps // 20))
        self._every = training.config.log_every_steps or default
        self._utilization = ModelFlopsUtilization(trained, training.worker, autocast)
        self._collapse = CollapseMonitor(training.journal, training.total_steps)
        # What a checkpoint has of all workers goes on in rank 0; the others have the same names.
        sums, stats = state.get("since_row", ({}, {}))
        main, device = training.worker.is_main, training.worker.device
        self._sums = {n: [main * torch.tensor(x, device=device)] for n, x in sums.items()}
        self._stats = defaultdict[str, float](float, {n: main * x for n, x in stats.items()})

    @property
    def memory(self) -> dict[str, Any]:
        """State to save with checkpoints, so that the next row of a resumed run counts the steps
        before it too. Collective.
        """
        return {"row": self.row, "since_row": self._totals() if self._sums else ({}, {})}

    def _totals(self) -> tuple[dict[str, list[float]], dict[str, float]]:
        """Return sums and counts over all workers, and the seconds of this one. Collective."""
        worker = self._worker
        sums = {n: worker.total(torch.stack(x).sum(0)).tolist() for n, x in self._sums.items()}
        # Workers may have different names, for example if only one has dropped a teacher.
        names = worker.union(name for name in self._stats if not name.startswith("time/"))
        stats = torch.tensor([self._stats[name] for name in names])
        counted = worker.total(stats.to(worker.device)).tolist()
        return sums, {**self._stats, **dict(zip(names, counted, strict=True))}

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
            self._stats["tokens"] += int(batch["attention_mask"].sum())
            self._stats["positions"] += batch["attention_mask"].numel()
            self._stats["examples"] += len(batch["input_ids"])
            for name, value in batch.get("stats", {}).items():
                self._stats[name] += float(value)
        self._stats["time/steps"] += 1

    def write(self, done: int, norms: Mapping[str, float], passes: Sequence[Batch]) -> None:
        """Write the row of step ``done``, summed over all workers, and start anew; collective."""
        sums, stats = self._totals()
        tokens, positions, examples, steps = map(stats.pop, _SIZES)
        row = {name: total / max(count, 1.0) for name, (total, count) in sums.items()}
        row |= {n: x / steps if n.startswith("time/") else x for n, x in stats.items()}
        row["data/padding_fraction"] = 1 - tokens / max(positions, 1.0)
        row["time/tokens_per_second"] = tokens / stats["time/step_seconds"]
        row["time/examples_per_second"] = examples / stats["time/step_seconds"]
        self._sums.clear()
        self._stats.clear()
        self.row = self._utilization.of({**row, **norms}, passes)
        self._training.journal.write(done, self.row)
        self._collapse.check(done, self.row)


def gradient_norms(objective: Objective) -> dict[str, float]:
    """Return the gradient norm of each network of an objective; shared parameters count in both.
    Empty for objectives with one network.
    """
    parts = {}
    for name, part in objective.named_children():
        gradients = [p.grad for p in part.parameters() if p.grad is not None]
        if gradients and name != "encoder":
            parts[f"train/grad_norm_{name}"] = gradients
    if len(parts) < 2:  # whose norm the clipping computes
        return {}
    norms = [full_tensor(torch.nn.utils.get_total_norm(part)) for part in parts.values()]
    return dict(zip(parts, torch.stack(norms).tolist(), strict=True))


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
