"""Distillation losses: Hinton's divergence times T squared, and squared error for regression.

Logits are ``[B, C]`` or, for spans, ``[B, 2, L]``, whose two heads are averaged per example. Each
of several labels is a choice between two classes of logits 0 and ``z``: ``two_classes``.
Computed in fp32.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from road_ray.data.batching import allowed_positions
from road_ray.data.examples import UNKNOWN
from road_ray.errors import ConfigError, DataError

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.01, 1000.0  # outside, fp32 leaves no signal


def two_classes(logits: Tensor) -> Tensor:
    """Return the two classes that each of several labels is: 0 without it, its logit with it.
    ``[..., C] -> [..., C, 2]``.

    Their softmax is the label's probability, their argmax the sign of its logit, and the divergence
    of two of them, with ``p = sigmoid(teacher / T)`` and ``q = sigmoid(student / T)``, the binary
    one: ``p log(p / q) + (1 - p) log((1 - p) / (1 - q))``. So all weighting rules and losses of
    classes hold for every label by itself.
    """
    return torch.stack([torch.zeros_like(logits), logits], -1)


def targets_of(batch: Mapping[str, Any]) -> tuple[Tensor, Tensor | None]:
    """Return the labels of a batch, ``[B]``, or its start and end positions, ``[B, 2]``, -100 where
    unknown; and the classes that count: ``[B, 1, L]`` for spans, without question and padding, None
    for all.
    """
    if batch.get("start_positions") is not None and batch.get("end_positions") is not None:
        ends = [torch.as_tensor(batch[name]) for name in ("start_positions", "end_positions")]
        return torch.stack(ends, -1), allowed_positions(batch)[:, None, :]
    if batch.get("labels") is None:
        raise DataError(
            f"the batch has no labels to weight the teachers by; it has {sorted(batch)}\n"
            f"  allowed: labels, or start_positions and end_positions; {UNKNOWN} where unknown"
        )
    return torch.as_tensor(batch["labels"]), None


def kd_loss(
    student_logits: Tensor, soft_logits: Tensor, *, temperature: float, mask: Tensor | None = None
) -> Tensor:
    """Return ``T^2 * KL(teacher || student)``, mean over examples. ``[B, ..., C] twice -> []``."""
    rows = kd_rows(student_logits, soft_logits, temperature=temperature, mask=mask)
    return rows.sum() / max(rows.numel(), 1)


def soft_loss_sum(
    student: Tensor, batch: Mapping[str, Any], *, temperature: float
) -> tuple[Tensor, Tensor]:
    """Return the loss to the soft targets that ``annotate`` added to a batch, summed over examples,
    and the number of examples: both ``[]``.

    ``student`` are logits ``[B, C]``, of spans ``[B, 2, L]``, of which the positions that may be an
    answer count, or of tags ``[B, L, C]``, where each token with a label is an example.
    Of several labels, whose targets are ``two_classes``, the loss of an example is the mean over
    labels: ``T^2 / C * sum_c KL(p_c || q_c)``.
    Examples and heads where ``kd_keep`` is false add 0, and are counted. Where the batch has
    ``teacher_logits``, the loss is the weighted mean of the teachers' losses; its gradient is that
    of the divergence from the weighted mean of the teachers' probabilities. Source: the AVER
    baseline and equation 6 of CA-MKD (Zhang et al. 2022), T^2 as in Hinton et al.
    """
    targets, weights = batch.get("teacher_logits"), batch.get("teacher_weights")
    if targets is None or weights is None:  # one target, whose weights are 0 or 1
        targets, weights = batch["soft_logits"][None], batch["kd_keep"][None]
    targets, weights = targets.to(student.device), weights.to(student.device)
    labels, mask = targets_of(batch)
    regression = labels.is_floating_point()
    if targets.ndim > student.ndim + 1:  # several labels
        student, regression = two_classes(student), False
        mask = torch.ones_like(student, dtype=torch.bool)
    count = torch.full((), len(student), device=student.device)
    if student.ndim > 2 and mask is None:
        known = (labels != UNKNOWN).to(student.device)
        student, targets = student.flatten(0, 1), targets.flatten(1, 2)
        weights, count = (weights * known).flatten(1, 2), known.sum()
    total = torch.zeros((), device=student.device)
    for soft, weight in zip(targets, weights, strict=True):
        if regression:
            _check_shapes(student, soft)
            rows = (student.float() - soft.float()).square().mean(-1)
        else:
            rows = kd_rows(student, soft, temperature=temperature, mask=mask)
        rows = torch.where(weight != 0, rows * weight, 0.0)
        # The mean over the heads of an example, as Hugging Face's run_squad_w_distillation.py has.
        total = total + (rows.flatten(1).mean(1) if rows.ndim > 1 else rows).sum()
    return total / len(targets), count


def kd_rows(
    student_logits: Tensor, soft_logits: Tensor, *, temperature: float, mask: Tensor | None = None
) -> Tensor:
    """Return ``T^2 * KL(teacher || student)`` of each distribution. ``[B, ..., C] twice ->
    [B, ...]``.

    ``mask`` ``[B, ..., C]`` marks the valid classes (no padding, no question); a row without any
    has 0. The gradient per distribution is ``T * (p_student - p_teacher)``. Source: Hinton et al.
    2015, section 2.
    """
    if not MIN_TEMPERATURE <= temperature <= MAX_TEMPERATURE:  # false for NaN too
        raise ConfigError(
            f"distillation.temperature is {temperature}\n"
            f"  allowed: {MIN_TEMPERATURE} to {MAX_TEMPERATURE:g}; usual values are 1 to 8"
        )
    _check_shapes(student_logits, soft_logits)
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
    rows = temperature**2 * (probability * gap).sum(-1)
    return rows if valid is None else torch.where(valid, rows, 0.0)


def _check_shapes(student: Tensor, soft: Tensor) -> None:
    if student.shape != soft.shape or student.ndim < 2:  # [N, 1] against [N, 3] would broadcast
        raise DataError(
            f"student logits {list(student.shape)} and soft logits {list(soft.shape)} "
            "differ in shape\n"
            "  allowed: equal shapes [B, C], or [B, 2, L] for spans\n"
            "  fix: take teachers and student with the same labels and the same maximum length"
        )
