"""Distillation in a custom training loop around a model of ``transformers``: its inputs from an
annotated batch, and the loss of its outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from road_ray.data.features.examples_and_features import UNKNOWN
from road_ray.distillation.ensemble.annotate import allowed_of, targets_of
from road_ray.distillation.losses import soft_loss_sum
from road_ray.errors import ConfigError, DataError

# Keys for teachers and keys that `annotate` adds to a batch; no model accepts them.
ADDED = (
    "texts",
    "offsets",
    "words",
    "soft_logits",
    "kd_keep",
    "stats",
    "teacher_logits",
    "teacher_weights",
)


def model_inputs(batch: Mapping[str, object]) -> dict[str, Any]:
    """Return the batch without the keys of ``annotate``, for ``model(**model_inputs(batch))``.

    Unknown positions of answers become the one behind the row, which models of ``transformers``
    ignore; -100 they take for position 0, "no answer".
    """
    inputs: dict[str, Any] = {name: x for name, x in batch.items() if name not in ADDED}
    for name in ("start_positions", "end_positions"):
        if inputs.get(name) is not None:
            positions, length = torch.as_tensor(inputs[name]), inputs["input_ids"].shape[-1]
            inputs[name] = positions.masked_fill(positions == UNKNOWN, length)
    return inputs


def student_loss(
    outputs: Any, batch: Mapping[str, Any], *, temperature: float = 2.0, kd_weight: float = 0.5
) -> Tensor:
    """Return ``(1 - kd_weight) * outputs.loss + kd_weight * T^2 * KL(teachers || student)``, mean
    over examples (over words in tagging). ``-> []``.

    ``outputs`` are those of any ``AutoModelFor...`` called with labels; ``batch`` is annotated.
    """
    if not 0 <= kd_weight <= 1:
        raise ConfigError(f"distillation.kd_weight = {kd_weight}\n  allowed: 0 <= value <= 1")
    if outputs.loss is None:
        raise DataError(
            f"the student's outputs have no loss; the batch has {sorted(batch)}\n"
            "  fix: give the model labels, or start_positions and end_positions"
        )
    label_loss: Tensor = outputs.loss
    if not (targets_of(batch) != UNKNOWN).any():  # a mean over no labels is NaN
        label_loss = torch.zeros_like(label_loss)
    return (1 - kd_weight) * label_loss + kd_weight * soft_loss(outputs, batch, temperature)


def soft_loss(outputs: Any, batch: Mapping[str, Any], temperature: float) -> Tensor:
    """Return the distillation loss: a divergence, or a regression's squared error. ``-> []``.

    A batch that was annotated with ``average_loss`` has the mean of the teachers' losses.
    """
    spans = getattr(outputs, "start_logits", None) is not None
    heads = (outputs.start_logits, outputs.end_logits) if spans else ()
    total, count = soft_loss_sum(
        torch.stack(heads, 1) if spans else outputs.logits,
        batch,
        temperature=temperature,
        mask=allowed_of(batch) if spans else None,
        regression=targets_of(batch).is_floating_point(),
    )
    return total / count.clamp(min=1)
