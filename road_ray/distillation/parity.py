"""Parity check of the teachers before the first step: all paths must give the same logits.

The reference is each teacher loaded into this process, one at a time; the running ensemble (actors,
say) and the store are compared with it. A difference beyond rounding means other weights, another
tokenizer, another version or a damaged store, and the student would learn from it silently.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from road_ray.data.task_and_dataset import Task
from road_ray.distillation.ensemble.local_ensemble import PLAIN, TeacherOptions
from road_ray.distillation.ensemble.teacher import inputs_of
from road_ray.errors import CheckpointError
from road_ray.models.config import TeacherPrecision

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


def check_parity(
    batch: Mapping[str, object],
    directories: Sequence[str | Path],
    task: Task,
    path: str,
    answers: Tensor,
    options: TeacherOptions = PLAIN,
    device: str | torch.device = "cpu",
) -> list[float]:
    """Return, for each teacher, the largest difference between the logits of its weights and its
    ``answers`` ``[M, B, ..., C]``, which came through ``path``. Teachers in int8 are compared with
    fp32.

    Raises ``CheckpointError`` with the first teacher that differs by more than rounding.
    """
    precision = options.precision
    plain = replace(options, compiled=False, precision="fp32" if precision == "int8" else precision)
    differences = []
    for index, directory in enumerate(directories):
        reference = plain.load(directory, task, device)
        expected, actual = reference.logits(**inputs_of(batch)).cpu(), answers[index].cpu()
        del reference  # one teacher at a time: the next may need its memory
        real = expected > -1000.0  # without the padding of spans, which is always equal
        scale = expected[real].abs().amax().item() if real.any() else 0.0
        allowed = _ALLOWED_FRACTION[precision] * max(1.0, scale)
        difference = math.inf
        if expected.shape == actual.shape:
            difference = (expected - actual).abs().amax().item() if actual.numel() else 0.0
        if not difference <= allowed:  # true for NaN as well
            coarse = "distillation.precision=fp32 if int8 is too coarse for it; or "
            compiled = "distillation.torch_compile=false; or "
            raise CheckpointError(
                f"teacher {index} ({directory}): through {path} its logits differ "
                f"from those of its weights by up to {difference:.3g}\n"
                f"  allowed: {allowed:.3g}, the largest difference by rounding\n"
                f"  fix: {coarse * (precision == 'int8')}{compiled * options.compiled}"
                "give all machines the same weights and versions; if it is its table, "
                "remove this teacher's directory (road data store ls)\n"
                "  kept: everything; no step was made"
            )
        differences.append(difference)
    return differences
