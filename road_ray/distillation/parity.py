"""Whether every way to ask the teachers gives the same answers, found out before the first step.

The reference is each teacher loaded into this process, one at a time; against it stand the live
ensemble (actors, say) and the store. A difference beyond rounding means other weights, another
tokenizer, another version or a broken store, and a student would learn it silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.schema import Task
from road_ray.distillation.ensemble.base import Teacher, inputs_of
from road_ray.errors import CheckpointError
from road_ray.models.config import Precision

# Of the largest logit. Four roundings of fp16 (2^-11 each): one of the store, the rest for another
# device's order of summation; in bf16 a sum in another order rounds every layer's states anew,
# and auto may be bf16 on one machine and fp32 on the next.
_ALLOWED_FRACTION: Mapping[Precision, float] = {"fp32": 2.0**-9, "bf16": 2.0**-5, "auto": 2.0**-5}


Answers = tuple[Tensor, NDArray[np.bool_]]
"""Logits ``[M, B, ..., C]``, and which teachers' answers to which rows ``[M, B]`` count."""


@dataclass(frozen=True)
class Drift:
    """How far the answers of one way were from the reference, over all rows compared."""

    teacher: int
    path: str
    difference: float
    allowed: float


def check_parity(
    batch: Mapping[str, Any],
    directories: Sequence[str | Path],
    task: Task,
    paths: Mapping[str, Answers],
    *,
    label_map: Mapping[str, str] | None = None,
    device: str | torch.device = "cpu",
    precision: Precision = "auto",
) -> list[Drift]:
    """The drift of each path and teacher; ``paths`` maps the name of a way to its answers.

    Raises ``CheckpointError`` naming the first teacher and path beyond what rounding explains.
    """
    drifts = []
    for index, directory in enumerate(directories):
        inputs = inputs_of(batch)
        reference = Teacher(
            directory, task, label_map=label_map, device=device, precision=precision
        )
        expected = reference.logits(**inputs).cpu()
        del reference  # one teacher at a time: the next may need its memory
        for path, (answers, counted) in paths.items():
            rows = torch.from_numpy(counted[index])
            if not rows.any():
                continue
            fraction = _ALLOWED_FRACTION[precision]
            drift = _drift(index, path, expected[rows], answers[index].cpu()[rows], fraction)
            if not drift.difference <= drift.allowed:  # true for NaN as well
                raise _refused(directory, drift)
            drifts.append(drift)
    return drifts


def all_counted(answers: Tensor) -> Answers:
    """Answers that all count."""
    return answers, np.ones(answers.shape[:2], np.bool_)


def _drift(index: int, path: str, expected: Tensor, seen: Tensor, fraction: float) -> Drift:
    if expected.shape != seen.shape:
        return Drift(index, path, float("inf"), 0.0)
    real = expected > -1000.0  # padding of spans, the same everywhere, would hide all else
    scale = expected[real].abs().amax().item() if real.any() else 0.0
    gap = (expected - seen).abs()
    difference = gap.amax().item() if gap.numel() else 0.0
    return Drift(index, path, difference, fraction * max(1.0, scale))


def _refused(directory: str | Path, drift: Drift) -> CheckpointError:
    return CheckpointError(
        f"teacher {drift.teacher} ({directory}): asked through {drift.path} its logits differ "
        f"from those of its weights by up to {drift.difference:.3g}\n"
        f"  allowed: {drift.allowed:.3g}, which is what rounding explains\n"
        "  fix: give all machines the same weights and versions; if it is the store, remove this "
        "teacher's directory from it (road data store ls)\n"
        "  kept: everything; no step was made"
    )
