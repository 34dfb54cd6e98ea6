"""Parity check of the teachers before the first step: all paths must give the same logits.

The reference is each teacher loaded into this process, one at a time; the running ensemble (actors,
say) and the store are compared with it. A difference beyond rounding means other weights, another
tokenizer, another version or a damaged store, and the student would learn from it silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from road_ray.data.task_and_dataset import Task
from road_ray.distillation.ensemble.local_ensemble import load_teacher
from road_ray.distillation.ensemble.teacher import inputs_of
from road_ray.errors import CheckpointError
from road_ray.models.config import TeacherPrecision
from road_ray.models.heads.label_order import LabelMap

# Fraction of the largest logit. Four roundings of fp16 (2^-11 each): one of the store, the rest for
# another device's order of summation; in bf16 that order changes the rounding of every layer, and
# auto may be bf16 on one machine and fp32 on the next. int8 is compared with fp32: where it differs
# by more, the teacher does not suit it (our choice; ELECTRA and MiniLM differ by less).
_ALLOWED_FRACTION: Mapping[TeacherPrecision, float] = {
    "fp32": 2.0**-9,
    "bf16": 2.0**-5,
    "auto": 2.0**-5,
    "int8": 2.0**-3,
}


@dataclass(frozen=True)
class Drift:
    """Largest difference between the answers of one path and the reference."""

    teacher: int
    path: str
    difference: float
    allowed: float


def check_parity(
    batch: Mapping[str, object],
    directories: Sequence[str | Path],
    task: Task,
    paths: Mapping[str, Tensor],
    *,
    student: str | None = None,
    label_map: LabelMap | None = None,
    device: str | torch.device = "cpu",
    precision: TeacherPrecision = "auto",
) -> list[Drift]:
    """Return the drift of each path and teacher; ``paths`` maps names of paths to their answers
    ``[M, B, ..., C]``.
    That of teachers in int8 is their difference from fp32.

    Raises ``CheckpointError`` with the first teacher and path that differ by more than rounding.
    """
    drifts = []
    for index, directory in enumerate(directories):
        inputs = inputs_of(batch)
        reference = load_teacher(
            directory,
            task,
            student=student,
            label_map=label_map,
            device=device,
            precision="fp32" if precision == "int8" else precision,
        )
        expected = reference.logits(**inputs).cpu()
        del reference  # one teacher at a time: the next may need its memory
        for path, answers in paths.items():
            fraction = _ALLOWED_FRACTION[precision]
            drift = _drift(index, path, expected, answers[index].cpu(), fraction)
            if not drift.difference <= drift.allowed:  # true for NaN as well
                raise _parity_error(directory, drift, precision)
            drifts.append(drift)
    return drifts


def _drift(index: int, path: str, expected: Tensor, actual: Tensor, fraction: float) -> Drift:
    if expected.shape != actual.shape:
        return Drift(index, path, float("inf"), 0.0)
    real = expected > -1000.0  # without the padding of spans, which is always equal
    scale = expected[real].abs().amax().item() if real.any() else 0.0
    gap = (expected - actual).abs()
    difference = gap.amax().item() if gap.numel() else 0.0
    return Drift(index, path, difference, fraction * max(1.0, scale))


def _parity_error(
    directory: str | Path, drift: Drift, precision: TeacherPrecision
) -> CheckpointError:
    coarse = "distillation.precision=fp32 if int8 is too coarse for it; or " * (precision == "int8")
    coarse += "distillation.torch_compile=false; or " * (drift.path == "torch.compile")
    return CheckpointError(
        f"teacher {drift.teacher} ({directory}): through {drift.path} its logits differ "
        f"from those of its weights by up to {drift.difference:.3g}\n"
        f"  allowed: {drift.allowed:.3g}, the largest difference by rounding\n"
        f"  fix: {coarse}give all machines the same weights and versions; if it is its table, "
        "remove this teacher's directory (road data store ls)\n"
        "  kept: everything; no step was made"
    )
