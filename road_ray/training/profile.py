"""A few real steps, measured instead of trained: what a plan says is taken from the very model and
data of the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any, cast

import torch
from torch import Tensor

from road_ray.data.batching import Batch, to_device
from road_ray.objectives.base import Objective
from road_ray.training.context import Training
from road_ray.training.optimizer import ElectraAdamW, build_optimizer, clip
from road_ray.training.step import backward
from road_ray.training.worker import Worker

_STEPS = 3  # measured; one before them warms up
_FIRST_ROWS = 2
_LONGEST_STEP_SECONDS = 1.5  # of a measured step, so that a plan comes in seconds everywhere


@dataclass(eq=False)  # not frozen: Python itself writes to what is raised
class Measured(Exception):
    """What ``measure`` found; raised out of a recipe, whose training it ends before it begins."""

    total_steps: int
    rows_per_step: float
    tokens_per_step: float  # of real ones, without padding
    parameters: int  # all that train
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int  # held between forward and backward, of the largest pass seen
    seconds_per_step: float  # median; of several phases, the mean of theirs
    seconds_by_phase: tuple[float, ...]  # medians
    data_seconds_per_step: float  # of these, waiting for rows and teachers
    checkpoint_bytes: int
    keep_checkpoints: int

    def __str__(self) -> str:
        return f"measured: {self.seconds_per_step:.3f} s a step"


class _Measuring:
    on = False


_MEASURING = _Measuring()


@contextmanager
def measuring() -> Iterator[None]:
    """Inside, a training is measured and ended by ``Measured`` instead of being done."""
    _MEASURING.on = True
    try:
        yield
    finally:
        _MEASURING.on = False


def asked() -> bool:
    """True inside of ``measuring``."""
    return _MEASURING.on


def measure(
    objective: Objective,
    steps: Callable[[int], Iterator[list[Batch]]],
    training: Training,
    worker: Worker,
    autocast: torch.dtype | None,
) -> Measured:
    """Four steps of each phase with forward, backward and update; the model is spoilt by them.

    Where a whole batch would take long, a part of its rows is timed and the rest reckoned.
    """
    objective.to(worker.device).train()
    optimizer = build_optimizer(objective, training.optimizer)
    optimizer.set_rate(0.0)
    backwards = partial(_backward, objective, training=training, worker=worker, autocast=autocast)
    total, starts = training.total_steps, training.phase_starts
    found = [_timed(objective, optimizer, steps(start), backwards, worker) for start in starts]
    lengths = [end - start for start, end in pairwise((*starts, total))]

    def mean(of: Callable[[_Timed], float]) -> float:
        return sum(of(one) * length for one, length in zip(found, lengths, strict=True)) / total

    state = [x for kept in optimizer.state.values() for x in kept.values() if torch.is_tensor(x)]
    parameters = list(objective.parameters())
    weights = sum(map(_size, parameters))
    return Measured(
        total_steps=total,
        rows_per_step=mean(lambda one: one.rows / (1 + _STEPS)),
        tokens_per_step=mean(lambda one: one.tokens / (1 + _STEPS)),
        parameters=sum(p.numel() for p in parameters if p.requires_grad),
        parameter_bytes=weights,
        gradient_bytes=max(one.gradient_bytes for one in found),
        optimizer_bytes=sum(map(_size, state)),
        activation_bytes=max(one.held for one in found),
        seconds_per_step=mean(lambda one: median(one.seconds[1:])),
        data_seconds_per_step=mean(lambda one: median(one.waits[1:])),
        seconds_by_phase=tuple(median(one.seconds[1:]) for one in found),
        # The model twice: once for resuming, once in Hugging Face layout.
        checkpoint_bytes=2 * weights + sum(map(_size, state)),
        keep_checkpoints=training.config.keep_checkpoints,
    )


@dataclass
class _Timed:
    """What some steps of one phase took, one after the other, and held."""

    seconds: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    rows: int = 0
    tokens: int = 0
    held: int = 0
    gradient_bytes: int = 0


def _timed(
    objective: Objective,
    optimizer: ElectraAdamW,
    source: Iterator[list[Batch]],
    backwards: Callable[[list[Batch], int], None],
    worker: Worker,
) -> _Timed:
    found, share = _Timed(), _FIRST_ROWS
    for step in range(1 + _STEPS):
        began = time.perf_counter()
        passes = next(source)
        found.waits.append(time.perf_counter() - began)
        whole = sum(len(batch["input_ids"]) for batch in passes)
        parts = [to_device(_part(batch, share), worker.device) for batch in passes]
        times = whole / sum(len(batch["input_ids"]) for batch in parts)
        began = time.perf_counter()
        with _held() as bytes_held:
            backwards(parts, step)
        worked = time.perf_counter() - began
        optimizer.step()
        updated = time.perf_counter() - began - worked
        found.seconds.append(found.waits[-1] + times * worked + updated)
        found.held = max(found.held, round(times * bytes_held.largest))
        found.rows += whole
        found.tokens += sum(int(batch["attention_mask"].sum()) for batch in passes)
        gradients = [p.grad for p in objective.parameters() if p.grad is not None]
        found.gradient_bytes = sum(map(_size, gradients))
        optimizer.zero_grad(set_to_none=True)
        # The first step warms up, and takes longer than any: as many rows as fit are enough.
        share = max(_FIRST_ROWS, int(share * _LONGEST_STEP_SECONDS / worked))
    return found


def _backward(
    objective: Objective,
    passes: list[Batch],
    step: int,
    *,
    training: Training,
    worker: Worker,
    autocast: torch.dtype | None,
) -> None:
    """The gradient of one step, clipped, once the device has made it."""
    seed = training.seed
    backward(objective, objective, passes, worker, seed=seed, step=step, autocast=autocast)
    float(clip(objective, training.optimizer.max_grad_norm))


def _part(batch: Batch, rows: int) -> Batch:
    """The first rows of a batch; of its noise, ``[K, B, L]``, those of the second dimension."""
    whole = len(batch["input_ids"])
    if rows >= whole:
        return batch

    def cut(value: Any) -> Any:
        if not torch.is_tensor(value) or not value.dim():
            return value
        if len(value) == whole:
            return value[:rows]
        return value[:, :rows] if value.dim() > 1 and value.shape[1] == whole else value

    return cast("Batch", {name: cut(value) for name, value in batch.items()})


class _Held:
    """Bytes that autograd keeps, and the most of them at a time."""

    def __init__(self) -> None:
        self.largest = 0
        self._seen: dict[int, int] = {}

    def pack(self, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, torch.nn.Parameter):
            storage = tensor.untyped_storage()
            self._seen[storage.data_ptr()] = storage.nbytes()
            self.largest = max(self.largest, sum(self._seen.values()))
        return tensor

    def unpack(self, tensor: Tensor) -> Tensor:
        self._seen.clear()  # backward has begun: what follows belongs to the next pass
        return tensor


@contextmanager
def _held() -> Iterator[_Held]:
    held = _Held()
    with torch.autograd.graph.saved_tensors_hooks(held.pack, held.unpack):
        yield held


def _size(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())
