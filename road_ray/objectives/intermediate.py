"""Distillation from a teacher's hidden states and attention maps, besides its logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from road_ray.data.batching import Batch
from road_ray.distillation.hidden_states import (
    HiddenStatesTeacher,
    Layers,
    hidden_states_of,
    layer_map,
)
from road_ray.errors import ConfigError
from road_ray.models.multitask import MultitaskModel
from road_ray.objectives.base import Losses, Term
from road_ray.objectives.distilled import Distilled


class IntermediateDistilled(Distilled):
    """``Distilled`` + ``hidden_weight`` * error of the hidden states + ``attention_weight`` * error
    of the attention maps, both mean over real tokens and matched layers.

    Each matched layer of the student has a projection to the teacher's width, which is trained too
    and not exported. Source: ROaD part 2, section 4.3 (hidden states);
    the attention term from ROaD's note on decoupled transformers, both at weight 0.5 there.
    """

    def __init__(
        self,
        model: MultitaskModel,
        teacher: HiddenStatesTeacher,
        *,
        layers: Layers = "uniform",
        hidden_weight: float = 0.0,
        attention_weight: float = 0.0,
        **distilled: Any,
    ) -> None:
        super().__init__(model, **distilled)
        if min(hidden_weight, attention_weight) < 0:
            raise ConfigError(
                f"distillation.matching: hidden_weight = {hidden_weight}, "
                f"attention_weight = {attention_weight}\n  allowed: 0 or more"
            )
        self.teacher = teacher
        self.hidden_weight, self.attention_weight = hidden_weight, attention_weight
        size = self.encoder.config
        self.pairs = layer_map(int(size.num_hidden_layers), teacher.num_layers, layers)
        wide = int(size.hidden_size), teacher.width
        self.projections = nn.ModuleDict(
            {str(layer): _projection(*wide) for layer, _ in self.pairs} if hidden_weight else {}
        )
        if attention_weight:
            self.encoder.set_attn_implementation("eager")  # others return no maps

    def forward(self, batch: Batch) -> Losses:
        output = self.model.states(
            batch, output_hidden_states=True, output_attentions=self.attention_weight > 0
        )
        logits, further = self.read(output.last_hidden_state, batch)
        losses = self.losses(logits, batch)
        terms = losses.terms | further
        ours, theirs = hidden_states_of(output), self.teacher(batch)
        real = batch["attention_mask"].flatten(0, -2).bool()
        name, count = batch["dataset"], real.sum()
        if self.hidden_weight:
            total = sum(
                hidden_error(self.projections[str(s)](ours.hidden[s]), theirs.hidden[t], real)
                for s, t in self.pairs
            )
            share = self.hidden_weight / len(self.pairs)
            terms[f"{name}_hidden"] = Term(torch.as_tensor(total), count, share)
        if self.attention_weight:
            total = sum(
                attention_error(ours.attentions[s], theirs.attentions[t], real)
                for s, t in self.pairs
            )
            share = self.attention_weight / len(self.pairs)
            terms[f"{name}_attention"] = Term(torch.as_tensor(total), count, share)
        return Losses(terms, losses.metrics)


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
