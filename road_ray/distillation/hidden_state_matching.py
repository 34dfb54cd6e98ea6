"""Errors of a student's hidden states and attention maps against those of a teacher."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from road_ray.data.batching import Batch
from road_ray.distillation.hidden_states_teacher import (
    HiddenStatesTeacher,
    Layers,
    hidden_states_of,
    layer_map,
)
from road_ray.errors import ConfigError


class MatchingError(NamedTuple):
    """Sum of one error over real tokens and matched layers, and its weight per token."""

    total: Tensor
    weight: float


class StateMatching(nn.Module):
    """``hidden_weight`` * error of the hidden states + ``attention_weight`` * error of the
    attention maps, both mean over real tokens and matched layers.

    Each matched layer of the student has a projection to the teacher's width, which is trained too.
    ``student`` is the student's encoder; where attention maps are matched it is set to the eager
    attention, because others return no maps. Source: ROaD part 2, section 4.3 (hidden states); the
    attention term from ROaD's note on decoupled transformers, both at weight 0.5 there.
    """

    def __init__(
        self,
        student: Any,
        teacher: HiddenStatesTeacher,
        *,
        layers: Layers = "uniform",
        hidden_weight: float = 0.0,
        attention_weight: float = 0.0,
    ) -> None:
        super().__init__()
        if min(hidden_weight, attention_weight) < 0:
            raise ConfigError(
                f"distillation.matching: hidden_weight = {hidden_weight}, "
                f"attention_weight = {attention_weight}\n  allowed: 0 or more"
            )
        self.teacher = teacher
        self.hidden_weight, self.attention_weight = hidden_weight, attention_weight
        self.pairs = layer_map(int(student.config.num_hidden_layers), teacher.num_layers, layers)
        wide = int(student.config.hidden_size), teacher.width
        self.projections = nn.ModuleDict(
            {str(layer): _projection(*wide) for layer, _ in self.pairs} if hidden_weight else {}
        )
        if attention_weight:
            student.set_attn_implementation("eager")

    @property
    def outputs(self) -> dict[str, bool]:
        """Arguments of the student's forward pass, for the outputs that are matched."""
        return {"output_hidden_states": True, "output_attentions": self.attention_weight > 0}

    def forward(self, output: Any, batch: Batch) -> dict[str, MatchingError]:
        """Return the errors by name, ``hidden`` and ``attention``, of the output of the student's
        forward pass over the batch.
        """
        ours, theirs = hidden_states_of(output), self.teacher(batch)
        mask = batch.get("attention_mask")
        mask = torch.ones_like(batch["input_ids"]) if mask is None else mask
        real = mask.flatten(0, -2).bool()
        errors = {}
        if self.hidden_weight:
            total = sum(
                hidden_error(self.projections[str(s)](ours.hidden[s]), theirs.hidden[t], real)
                for s, t in self.pairs
            )
            share = self.hidden_weight / len(self.pairs)
            errors["hidden"] = MatchingError(torch.as_tensor(total), share)
        if self.attention_weight:
            total = sum(
                attention_error(ours.attentions[s], theirs.attentions[t], real)
                for s, t in self.pairs
            )
            share = self.attention_weight / len(self.pairs)
            errors["attention"] = MatchingError(torch.as_tensor(total), share)
        return errors


def hidden_error(student: Tensor, teacher: Tensor, real: Tensor) -> Tensor:
    """Return the squared error, mean over the width, summed over ``real`` tokens:
    ``[B, L, D] twice, [B, L] -> []``.
    """
    errors = (student.float() - teacher.float()).square().mean(-1)
    return torch.where(real, errors, 0.0).sum()


def attention_error(student: Tensor, teacher: Tensor, real: Tensor) -> Tensor:
    """Return the squared distance of two attention distributions, mean over heads, summed over
    ``real`` tokens: ``[B, H, L, L] twice, [B, L] -> []``.

    Summed over keys, because a mean would vanish in long rows (our choice). Where the numbers of
    heads differ, the means over heads are compared. The student's map includes its dropout.
    """
    student, teacher = student.float(), teacher.float()
    if student.shape[1] != teacher.shape[1]:
        student, teacher = student.mean(1, keepdim=True), teacher.mean(1, keepdim=True)
    keys = real[:, None, None, :]
    gap = torch.where(keys, student - teacher, 0.0)
    return torch.where(real, gap.square().sum(-1).mean(1), 0.0).sum()


def _projection(student: int, teacher: int) -> nn.Linear:
    """Return a linear map, initialised to the identity where the widths agree."""
    linear = nn.Linear(student, teacher)
    if student == teacher:
        nn.init.eye_(linear.weight)
        nn.init.zeros_(linear.bias)
    return linear
