"""Measurement of a few real steps: a plan is computed from the model and the data of the run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor

from road_ray.data.batching import Batch, BatchTotals
from road_ray.objectives.base import Objective
from road_ray.training.optimization.gradient_accumulation import backward
from road_ray.training.optimization.optimizer import ElectraAdamW, build_optimizer, clip
from road_ray.training.performance.prefetch import placed
from road_ray.training.run_context import Training
from road_ray.training.worker import Worker

_NOTHING = BatchTotals(0, 0, 0)
_STEPS = 3  # measured, after one that warms up
_FIRST_ROWS = 2
_LONGEST_STEP_SECONDS = 1.0  # of a measured step, so that a plan comes in seconds everywhere


@dataclass(frozen=True)
class Measured:
    """Cost of one training on this machine, from a few steps of it. Means are over all phases, each
    weighted by its steps; sizes are in bytes.
    """

    total_steps: int
    rows_per_step: float
    tokens_per_step: float  # without padding
    parameters: int  # trainable
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int  # saved between forward and backward; of the largest pass measured
    seconds_per_step: float  # mean over phases
    seconds_by_phase: tuple[float, ...]
    seconds_range: tuple[float, float]  # by the fastest and by the slowest measured step
    data_seconds_per_step: float  # part of seconds_per_step, spent waiting for rows and teachers
    checkpoint_bytes: int
    keep_checkpoints: int
    rows_per_epoch: int | None = None  # of the training data; None: not one data set

    def scaled(self, rows_per_step: float) -> Measured:
        """Return the cost for steps of ``rows_per_step`` rows, because a sample of a corpus may not
        fill its batches.
        """
        factor = rows_per_step / self.rows_per_step
        return replace(
            self,
            rows_per_step=rows_per_step,
            rows_per_epoch=None,  # of the sample
            tokens_per_step=factor * self.tokens_per_step,
            activation_bytes=round(factor * self.activation_bytes),
            seconds_per_step=factor * self.seconds_per_step,
            seconds_range=(factor * self.seconds_range[0], factor * self.seconds_range[1]),
            seconds_by_phase=tuple(factor * seconds for seconds in self.seconds_by_phase),
        )


def measure(
    objective: Objective,
    steps: Callable[[int], Iterator[list[Batch]]],
    training: Training,
    worker: Worker,
    autocast: torch.dtype | None,
) -> Measured:
    """Run four steps of each phase, with forward, backward and update, and return their cost. The
    first step of a phase warms up and is not timed. The weights change.

    Batches differ in length, so the time of forward and backward is the time per position, padding
    included, times the positions of a mean step. If a batch takes long, only some of its rows are
    timed. Rows and tokens are those of all batches if ``training.totals`` is given.
    """
    objective.to(worker.device).train()
    optimizer = build_optimizer(objective, training.optimizer)
    optimizer.set_rate(0.0)
    total, starts = training.total_steps, training.phase_starts

    def backwards(passes: list[Batch], step: int) -> None:
        """Compute and clip the gradient of one step, and wait for the device."""
        seed = training.seed
        backward(objective, objective, passes, worker, seed=seed, step=step, autocast=autocast)
        float(clip(objective, training.optimizer.max_grad_norm))

    phases = [_timed(objective, optimizer, steps(start), backwards, worker) for start in starts]
    lengths = [end - start for start, end in pairwise((*starts, total))]
    if training.totals is not None:
        for phase, totals, length in zip(phases, training.totals(), lengths, strict=True):
            phase.totals, phase.steps = totals, length

    def mean(of: Callable[[_Timed], float]) -> float:
        pairs = zip(phases, lengths, strict=True)
        return sum(of(phase) * length for phase, length in pairs) / total

    seconds = mean(lambda phase: phase.seconds_per_step)
    fastest = mean(lambda phase: phase.seconds_of(min))
    slowest = mean(lambda phase: phase.seconds_of(max))
    state = [value for moments in optimizer.state.values() for value in moments.values()]
    optimizer_bytes = sum(value.nbytes for value in state if torch.is_tensor(value))
    parameters = list(objective.parameters())
    weights = sum(parameter.nbytes for parameter in parameters)
    return Measured(
        total_steps=total,
        rows_per_step=mean(lambda phase: phase.totals.rows / phase.steps),
        tokens_per_step=mean(lambda phase: phase.totals.tokens / phase.steps),
        parameters=sum(p.numel() for p in parameters if p.requires_grad),
        parameter_bytes=weights,
        gradient_bytes=max(phase.gradient_bytes for phase in phases),
        optimizer_bytes=optimizer_bytes,
        activation_bytes=max(phase.saved_bytes for phase in phases),
        seconds_per_step=seconds,
        seconds_range=(min(seconds, fastest), max(seconds, slowest)),
        data_seconds_per_step=mean(lambda phase: median(phase.waits[1:])),
        seconds_by_phase=tuple(phase.seconds_per_step for phase in phases),
        # The model twice: once for resuming, once in Hugging Face layout.
        checkpoint_bytes=2 * weights + optimizer_bytes,
        keep_checkpoints=training.config.keep_checkpoints,
        rows_per_epoch=training.rows_per_epoch,
    )


@dataclass
class _Timed:
    """Seconds and sizes of the steps of one phase, of which the first warms up."""

    waits: list[float] = field(default_factory=list)
    backwards: list[float] = field(default_factory=list)  # of the rows that were timed
    positions: list[int] = field(default_factory=list)  # of these rows
    updates: list[float] = field(default_factory=list)
    totals: BatchTotals = _NOTHING  # of `steps` steps
    steps: int = 1 + _STEPS
    saved_bytes: int = 0
    gradient_bytes: int = 0

    @property
    def seconds_per_step(self) -> float:
        """Seconds of a step of the mean number of positions."""
        rate = sum(self.backwards[1:]) / sum(self.positions[1:])
        computing = rate * self.totals.positions / self.steps
        return median(self.waits[1:]) + computing + median(self.updates[1:])

    def seconds_of(self, choose: Callable[[Iterable[float]], float]) -> float:
        """Seconds of such a step if all were like the fastest (``min``) or the slowest (``max``)
        that was measured; they differ on a busy machine.
        """
        mean_positions = self.totals.positions / self.steps
        parts = zip(self.waits, self.backwards, self.positions, self.updates, strict=True)
        steps = [wait + back / n * mean_positions + update for wait, back, n, update in parts]
        return choose(steps[1:])


def _timed(
    objective: Objective,
    optimizer: ElectraAdamW,
    source: Iterator[list[Batch]],
    backwards: Callable[[list[Batch], int], None],
    worker: Worker,
) -> _Timed:
    # A GPU takes about as long for two rows as for a whole batch, so it gets whole batches.
    on_cpu = worker.device.type == "cpu"
    timed, num_rows = _Timed(), _FIRST_ROWS if on_cpu else sys.maxsize
    for step in range(1 + _STEPS):
        started = time.perf_counter()
        passes = next(source)
        timed.waits.append(time.perf_counter() - started)
        num_all_rows = sum(len(batch["input_ids"]) for batch in passes)
        parts = [placed(_part(batch, num_rows), objective, worker.device) for batch in passes]
        scale = num_all_rows / sum(len(batch["input_ids"]) for batch in parts)
        started = time.perf_counter()
        with _saved_tensors() as saved:
            backwards(parts, step)
        backward_seconds = time.perf_counter() - started
        optimizer.step()
        worker.synchronize()
        timed.backwards.append(backward_seconds)
        timed.updates.append(time.perf_counter() - started - backward_seconds)
        timed.positions.append(sum(batch["attention_mask"].numel() for batch in parts))
        timed.saved_bytes = max(timed.saved_bytes, round(scale * saved.largest))
        for mask in (batch["attention_mask"] for batch in passes):
            rows, tokens, positions = timed.totals
            timed.totals = BatchTotals(
                rows + len(mask), tokens + int(mask.sum()), positions + mask.numel()
            )
        gradients = (p.grad for p in objective.parameters() if p.grad is not None)
        timed.gradient_bytes = sum(gradient.nbytes for gradient in gradients)
        optimizer.zero_grad(set_to_none=True)
        # The first step warms up and is the slowest: as many rows as fit into the limit.
        if on_cpu:
            num_rows = max(_FIRST_ROWS, int(num_rows * _LONGEST_STEP_SECONDS / backward_seconds))
    return timed


def _part(batch: Batch, rows: int) -> Batch:
    """Return the first rows of a batch; its noise ``[K, B, L]`` is cut in the second dimension."""
    num_all_rows = len(batch["input_ids"])
    if rows >= num_all_rows:
        return batch

    def cut(value: object) -> Any:
        if not torch.is_tensor(value) or not value.dim():
            return value
        if len(value) == num_all_rows:
            return value[:rows]
        return value[:, :rows] if value.dim() > 1 and value.shape[1] == num_all_rows else value

    return cast("Batch", {name: cut(value) for name, value in batch.items()})


@contextmanager
def _saved_tensors() -> Iterator[SimpleNamespace]:
    """Count the bytes that autograd saves; ``largest`` is their maximum over the passes."""
    saved, seen = SimpleNamespace(largest=0), dict[int, int]()

    def pack(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, torch.nn.Parameter):
            storage = tensor.untyped_storage()
            seen[storage.data_ptr()] = storage.nbytes()
            saved.largest = max(saved.largest, sum(seen.values()))
        return tensor

    def unpack(tensor: Tensor) -> Tensor:
        seen.clear()  # backward has begun: what follows belongs to the next pass
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        yield saved
