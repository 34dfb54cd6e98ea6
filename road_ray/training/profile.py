"""Measurement of a few real steps: a plan is computed from the model and the data of the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from road_ray.data.batching import Batch, to_device
from road_ray.models.config import EncoderConfig
from road_ray.objectives.base import Objective
from road_ray.training.gradients import backward
from road_ray.training.optimizer import ElectraAdamW, build_optimizer, clip
from road_ray.training.run_context import Training
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
    "L40": (181.0, 90.5),
    "L4": (121.0, 30.3),
}
_PRODUCTS = 5  # the fastest counts
BACKWARD = 2  # FLOPs of a backward pass, as a multiple of the forward pass
_STEPS = 3  # measured, after one that warms up
_FIRST_ROWS = 2
_ROWS_SECOND = ("noise", "teacher_logits", "teacher_weights")  # in which they are dimension 1
_LONGEST_STEP_SECONDS = 1.0  # of a measured step, so that a plan comes in seconds everywhere
# FLOPs of published models, counted as ELECTRA's released flops_computation.py does.
_DROPOUT, _LAYER_NORM, _ACTIVATION, _SOFTMAX = 4, 5, 8, 5
_PREDICTED_SHARE = 0.15625  # 20 of 128 positions, in BERT and here


def forward_flops(
    objective: nn.Module, batch: Batch, worker: Worker, autocast: torch.dtype | None
) -> int:
    """Return the FLOPs of one forward pass as ``torch.utils.flop_counter`` counts them; on a CPU it
    does not count attention. Its hooks fail under ``no_grad`` at modules that are given parameters.
    """
    objective.eval()  # the statistics of a BatchNorm are those of the training alone
    with (
        # A compiled encoder that is first met under the counter is never compiled again.
        torch.compiler.set_stance("force_eager"),
        FlopCounterMode(display=False) as counter,
        torch.autocast(worker.device.type, dtype=autocast, enabled=autocast is not None),
    ):
        objective(to_device(batch, worker.device))
    objective.train()
    return int(counter.get_total_flops())


@cache
def peak_flops(device: torch.device, dtype: torch.dtype) -> float:
    """Return the FLOP/s of dense products of ``dtype`` on a device: of its data sheet where it is
    known, so that shares can be compared with published ones, else as measured once a process.
    """
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    for part, (reduced, full) in _DATA_SHEETS.items():
        if part in name:
            return 1e12 * (full if dtype == torch.float32 else reduced)
    side = _SIDE.get(device.type, _SIDE["cpu"])
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    best = float("inf")
    for _ in range(_PRODUCTS):
        started = time.perf_counter()
        product = a @ b
        float(product[0, 0])  # waits for the device
        best = min(best, time.perf_counter() - started)
    return 2 * side**3 / best


@dataclass(frozen=True)
class Measured:
    """Cost of one training on this machine, from a few steps of it. Sizes are in bytes."""

    total_steps: int
    rows_per_step: float
    tokens_per_step: float  # without padding
    parameters: int  # trainable
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int  # saved between forward and backward; of the largest pass measured
    seconds_per_step: float
    seconds_range: tuple[float, float]  # by the fastest and by the slowest measured step
    data_seconds_per_step: float  # part of seconds_per_step, spent waiting for rows and teachers
    checkpoint_bytes: int
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
        )


def measure(
    objective: Objective,
    steps: Callable[[int], Iterator[list[Batch]]],
    training: Training,
    autocast: torch.dtype | None,
) -> Measured:
    """Run four steps with forward, backward and update, and return their cost. The first one warms
    up and is not timed. The weights change.

    Batches differ in length, so the time of forward and backward is the time per position, padding
    included, times the positions of a mean step of all batches. If a batch takes long, only some of
    its rows are timed.
    """
    objective.to(training.worker.device).train()
    optimizer = build_optimizer(objective, training.optimizer)
    optimizer.set_rate(0.0)
    total, size = training.total_steps, training.totals()
    timed, saved = _time_steps(objective, optimizer, steps(0), training, autocast)
    positions = size.positions / total
    seconds = [wait + positions * each + update for wait, each, update in timed]
    states = [value for state in optimizer.state.values() for value in state.values()]
    optimizer_bytes = sum(value.nbytes for value in states if torch.is_tensor(value))
    parameters = list(objective.parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    weights = sum(parameter.nbytes for parameter in parameters)
    return Measured(
        total_steps=total,
        rows_per_step=size.rows / total,
        tokens_per_step=size.tokens / total,
        parameters=sum(parameter.numel() for parameter in trained),
        parameter_bytes=weights,
        gradient_bytes=sum(parameter.nbytes for parameter in trained),
        optimizer_bytes=optimizer_bytes,
        activation_bytes=saved,
        seconds_per_step=median(seconds),
        seconds_range=(min(seconds), max(seconds)),
        data_seconds_per_step=median(wait for wait, _, _ in timed),
        # The model twice: once for resuming, once in Hugging Face layout.
        checkpoint_bytes=2 * weights + optimizer_bytes,
        rows_per_epoch=training.rows_per_epoch,
    )


def _time_steps(
    objective: Objective,
    optimizer: ElectraAdamW,
    source: Iterator[list[Batch]],
    training: Training,
    autocast: torch.dtype | None,
) -> tuple[list[tuple[float, float, float]], int]:
    """Return the seconds of each step until the rows came, of forward and backward by position, and
    of the update; and the bytes that the largest pass saves for its backward pass.
    """
    # A GPU takes about as long for two rows as for a whole batch, so it gets whole batches.
    worker, timed, saved_bytes = training.worker, [], 0
    num_rows = _FIRST_ROWS if worker.device.type == "cpu" else None
    for step in range(1 + _STEPS):
        started = time.perf_counter()
        passes = next(source)
        waited = time.perf_counter() - started
        num_all_rows = sum(len(batch["input_ids"]) for batch in passes)
        prepared = [objective.prepare(_part(batch, num_rows)) for batch in passes]
        parts = [to_device(batch, worker.device) for batch in prepared]
        scale = num_all_rows / sum(len(batch["input_ids"]) for batch in parts)
        positions = sum(batch["attention_mask"].numel() for batch in parts)
        started = time.perf_counter()
        with _saved_tensors() as saved:
            seed = training.seed
            backward(objective, objective, parts, worker, seed=seed, step=step, autocast=autocast)
            float(clip(objective, training.optimizer.max_grad_norm))  # waits for the device
        computed = time.perf_counter() - started
        optimizer.step()
        worker.synchronize()
        updated = time.perf_counter() - started - computed
        saved_bytes = max(saved_bytes, round(scale * saved.largest))
        optimizer.zero_grad(set_to_none=True)
        # The first step warms up and is the slowest: as many rows as fit into the limit.
        if num_rows is not None:
            num_rows = max(_FIRST_ROWS, int(num_rows * _LONGEST_STEP_SECONDS / computed))
        timed.append((waited, computed / positions, updated))
    return timed[1:], saved_bytes


def _part(batch: Batch, rows: int | None) -> Batch:
    """Return the first rows of a batch, all for None."""

    def cut(name: str, value: Any) -> Any:
        if not torch.is_tensor(value) or not value.dim():
            return value
        return value[:, :rows] if name in _ROWS_SECOND else value[:rows]

    return cast("Batch", {name: cut(name, value) for name, value in batch.items()})


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


def encoder_flops(size: EncoderConfig, vocab_size: int, length: int) -> float:
    """Return the FLOPs of embeddings and all layers for one row."""
    width = size.embedding_size
    each = 2 * width * (vocab_size + length + 2) + (2 + _LAYER_NORM + _DROPOUT) * width
    if width != size.hidden_size:
        each += 2 * size.hidden_size * width + size.hidden_size
    return size.layers * layer_flops(size, length) + float(each * length)


def layer_flops(size: EncoderConfig, length: int) -> float:
    """Return the FLOPs of one layer for one row."""
    width, inner, heads = size.hidden_size, size.intermediate_size, size.heads
    attention = 6 * width * width + 3 * width + 2 * width * length
    attention += (_SOFTMAX + _DROPOUT + 1) * length * heads + 2 * width * length
    # The released script does not multiply this LayerNorm by the width.
    attention += 2 * width * width + width + _DROPOUT * width + width + _LAYER_NORM
    feed_forward = (4 * width + _ACTIVATION + 1) * inner + (2 + _DROPOUT + _LAYER_NORM) * width
    return float((attention + feed_forward) * length)


def word_head_flops(
    size: EncoderConfig, vocab_size: int, length: int, share: float = _PREDICTED_SHARE
) -> float:
    """Return the FLOPs of token prediction at ``share`` of one row's positions; of a choice among
    ``vocab_size`` candidates too.
    """
    width = size.embedding_size
    each = 2 * width * vocab_size + 2 * size.hidden_size * width
    each += (1 + _ACTIVATION + _LAYER_NORM) * width + (_SOFTMAX + 2) * vocab_size
    return each * length * share


def detection_head_flops(size: EncoderConfig, length: int) -> float:
    """Return the FLOPs of detection at every position of one row."""
    width = size.hidden_size
    return float((2 * width * width + (1 + _ACTIVATION + 2) * width) * length)
