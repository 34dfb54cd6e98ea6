"""Distillation losses: Hinton's divergence times T squared, and squared error for regression.

``*_loss_sum`` is a sum over examples (the training step divides by global counts), ``kd_loss`` the
mean over examples. Logits are ``[B, C]`` or, for spans, ``[B, 2, L]``, whose two heads are averaged
per example. Computed in fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from road_ray.data.features.examples_and_features import UNKNOWN
from road_ray.errors import ConfigError, DataError

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.01, 1000.0  # outside, fp32 leaves no signal


def kd_loss(
    student_logits: Tensor, soft_logits: Tensor, *, temperature: float, mask: Tensor | None = None
) -> Tensor:
    """Return ``T^2 * KL(teacher || student)``, mean over examples. ``[B, ..., C] twice -> []``."""
    total = kd_loss_sum(student_logits, soft_logits, temperature=temperature, mask=mask)
    return total / max(len(student_logits), 1)


def soft_loss_sum(
    student: Tensor,
    batch: Mapping[str, Any],
    *,
    temperature: float,
    mask: Tensor | None = None,
    regression: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the loss to the soft targets that ``annotate`` added to a batch, summed over examples,
    and the number of examples: both ``[]``.

    ``student`` are logits ``[B, C]``, of spans ``[B, 2, L]`` with a ``mask`` of the positions that
    may be an answer, or of tags ``[B, L, C]``, where each token with a label is an example. Where
    the batch has ``teacher_logits``, the loss is the weighted mean of the teachers' losses.
    """
    device = student.device
    soft, keep = (batch[name].to(device) for name in ("soft_logits", "kd_keep"))
    each, weights = batch.get("teacher_logits"), batch.get("teacher_weights")
    count = torch.full((), len(student), device=device)
    if each is not None and weights is not None:
        each, weights = each.to(device), weights.to(device)
    if student.ndim > 2 and mask is None:
        known = (torch.as_tensor(batch["labels"]) != UNKNOWN).flatten().to(device)
        student, soft, count = student.flatten(0, 1), soft.flatten(0, 1), known.sum()
        keep = keep.flatten() & known
        if each is not None and weights is not None:
            each, weights = each.flatten(1, 2), torch.where(known, weights.flatten(1, 2), 0.0)
    if each is not None and weights is not None:
        if regression:
            return average_regression_loss_sum(student, each, weights), count
        return average_loss_sum(student, each, weights, temperature=temperature, mask=mask), count
    if regression:
        return regression_loss_sum(student, soft, keep=keep), count
    return kd_loss_sum(student, soft, temperature=temperature, mask=mask, keep=keep), count


def kd_loss_sum(
    student_logits: Tensor,
    soft_logits: Tensor,
    *,
    temperature: float,
    mask: Tensor | None = None,
    keep: Tensor | None = None,
) -> Tensor:
    """Return ``T^2 * KL(teacher || student)``, sum over examples, mean over an example's heads.
    ``[B, ..., C] twice -> []``.

    ``mask`` ``[B, ..., C]`` marks the valid classes (no padding, no question); a row without any
    adds 0. ``keep`` ``[B, ...]`` is false for examples or heads without distillation; they add 0,
    and the caller still divides by all examples. The gradient per example is
    ``T * (p_student - p_teacher)``, divided by the number of heads. Source: Hinton et al. 2015,
    section 2; for two heads Hugging Face ``run_squad_w_distillation.py``.
    """
    rows, valid = kd_rows(student_logits, soft_logits, temperature=temperature, mask=mask)
    if valid is not None:
        keep = valid if keep is None else keep.to(valid.device) & valid
    return _sum(rows, keep)


def average_loss_sum(
    student_logits: Tensor,
    teacher_logits: Tensor,
    weights: Tensor,
    *,
    temperature: float,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the weighted mean of the teachers' divergences, ``sum_m w_m KL_m / M``, summed like
    ``kd_loss_sum``. ``[B, ..., C], [M, B, ..., C], [M, B, ...] -> []``.

    Its gradient is that of the divergence from the weighted mean of the teachers' probabilities.
    Source: the AVER baseline and equation 6 of CA-MKD (Zhang et al. 2022), T^2 as in Hinton et al.
    """
    total = student_logits.new_zeros((), dtype=torch.float32)
    for teacher, weight in zip(teacher_logits, weights, strict=True):
        rows, valid = kd_rows(student_logits, teacher, temperature=temperature, mask=mask)
        total = total + _sum(rows * weight.to(rows.device), valid)
    return total / len(teacher_logits)


def kd_rows(
    student_logits: Tensor, soft_logits: Tensor, *, temperature: float, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return ``T^2 * KL`` of each distribution, and which have a valid class in ``mask`` (None:
    all). ``[B, ..., C] twice -> [B, ...] twice``.
    """
    check_temperature(temperature)
    _same_shape(student_logits, soft_logits)
    student, soft = student_logits.float() / temperature, soft_logits.detach().float() / temperature
    valid = None
    if mask is not None:
        mask = mask.to(student.device).expand_as(student)
        valid = mask.any(-1)
        student = student.masked_fill(~(mask | ~valid.unsqueeze(-1)), -torch.inf)
        soft = soft.masked_fill(~(mask | ~valid.unsqueeze(-1)), -torch.inf)
    log_student, log_soft = student.log_softmax(-1), soft.log_softmax(-1)
    probability = log_soft.exp()
    # Where the teacher's probability is 0 the limit of the term is 0; computed: 0 * (inf - inf).
    gap = torch.where(probability > 0, log_soft - log_student, 0.0)
    return temperature**2 * (probability * gap).sum(-1), valid


def regression_loss_sum(student: Tensor, soft: Tensor, *, keep: Tensor | None = None) -> Tensor:
    """Return the squared error to the teachers' mean, sum over examples. ``[B, 1] twice -> []``."""
    _same_shape(student, soft)
    return _sum((student.float() - soft.detach().float()).square().mean(-1), keep)


def average_regression_loss_sum(student: Tensor, teachers: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted mean of the teachers' squared errors, summed over examples.
    ``[B, 1], [M, B, 1], [M, B] -> []``.
    """
    _same_shape(student, teachers[0])
    errors = (student.float() - teachers.detach().float()).square().mean(-1)
    return (errors * weights.to(errors.device)).sum() / len(teachers)


def check_temperature(temperature: float) -> None:
    """Raise ``ConfigError`` for a temperature without signal (0, negative, NaN, extreme)."""
    if not MIN_TEMPERATURE <= temperature <= MAX_TEMPERATURE:  # false for NaN too
        raise ConfigError(
            f"distillation.temperature is {temperature}\n"
            f"  allowed: {MIN_TEMPERATURE} to {MAX_TEMPERATURE:g}; usual values are 1 to 8"
        )


def _sum(rows: Tensor, keep: Tensor | None) -> Tensor:
    """Return the sum over the examples of ``keep``, mean over their heads. ``[B, ...] -> []``."""
    if keep is not None:
        if keep.shape != rows.shape[: keep.ndim]:
            raise DataError(f"keep {list(keep.shape)} does not fit rows {list(rows.shape)}")
        keep = keep.reshape(*keep.shape, *[1] * (rows.ndim - keep.ndim))
        rows = torch.where(keep.to(rows.device), rows, 0.0)
    return rows.flatten(1).mean(1).sum() if rows.ndim > 1 else rows.sum()


def _same_shape(student: Tensor, soft: Tensor) -> None:
    if student.shape != soft.shape or student.ndim < 2:  # [N, 1] against [N, 3] would broadcast
        raise DataError(
            f"student logits {list(student.shape)} and soft logits {list(soft.shape)} "
            "differ in shape\n"
            "  allowed: equal shapes [B, C], or [B, 2, L] for spans\n"
            "  fix: take teachers and student with the same labels and the same maximum length"
        )
