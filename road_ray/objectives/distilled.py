"""Distillation: training on labels and on the soft logits of an ensemble of teachers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from road_ray.data.batching import Batch, allowed_positions
from road_ray.data.task_and_dataset import Regress, Span, Tag
from road_ray.distillation.hidden_state_matching import StateMatching
from road_ray.distillation.losses import soft_loss_sum
from road_ray.distillation.schedule import Schedule
from road_ray.models.multitask import MultitaskModel
from road_ray.objectives.base import Losses, Term
from road_ray.objectives.supervised import Supervised

_HALF = Schedule(((0.0, 0.5),))


class Distilled(Supervised):
    """``(1 - kd_weight) * label loss + kd_weight * T^2 * KL(teachers || student)``, mean over
    examples (or tagged tokens).

    An example without a label still counts in the soft loss. The batch has ``soft_logits``
    ``[B, ..., C]`` (already weighted) and ``kd_keep``; where it also has ``teacher_logits``
    ``[M, B, ..., C]`` and ``teacher_weights``, the loss is the mean of each teacher's divergence. A
    batch without ``soft_logits``, of a data set without teachers, has the label loss only. A
    ``kd_weight`` that changes reads the batch's ``fraction`` of the training. ``matching`` adds the
    differences of the encoder's states from a teacher's; its projections are not exported.
    ``of_labels`` are the options of `Supervised`. Source: Hinton et al. 2015; ROaD part 1, section
    3.5.
    """

    def __init__(
        self,
        model: MultitaskModel,
        *,
        kd_weight: Schedule = _HALF,
        temperature: float = 2.0,
        matching: StateMatching | None = None,
        **of_labels: Any,
    ) -> None:
        super().__init__(model, **of_labels)
        self.kd_weight, self.temperature, self.matching = kd_weight, temperature, matching

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        counts, name = super().counts(batch), batch["dataset"]
        if "soft_logits" in batch:
            is_tagging = isinstance(self.model.tasks[batch["task"]].kind, Tag)
            rows = torch.full((), len(batch["input_ids"]), device=batch["input_ids"].device)
            counts[f"{name}_soft"] = counts[name] if is_tagging else rows
        if self.matching is not None:
            weights = self.matching.hidden_weight, self.matching.attention_weight
            tokens = batch["attention_mask"].bool().sum()
            used = zip(("hidden", "attention"), weights, strict=True)
            counts |= {f"{name}_{kind}": tokens for kind, weight in used if weight}
        return counts

    def predict(self, batch: Batch) -> tuple[Tensor, dict[str, Term]]:
        """Return the logits of the batch's task, and the terms of further heads and of states."""
        if self.matching is None:
            return super().predict(batch)
        output = self.model.states(batch, **self.matching.outputs)
        logits, terms = self.read(output.last_hidden_state, batch)
        count = batch["attention_mask"].bool().sum()
        for name, (total, weight) in self.matching(output, batch).items():
            terms[f"{batch['dataset']}_{name}"] = Term(total, count, weight)
        return logits, terms

    def forward(self, batch: Batch) -> Losses:
        logits, further = self.predict(batch)
        losses = self.losses(logits, batch)
        return Losses(self.weighted(losses.terms | further, batch), losses.metrics)

    def losses(self, logits: Tensor, batch: Batch) -> Losses:
        """Return the label and the soft loss of the student's ``logits``, unweighted."""
        task, name = self.model.tasks[batch["task"]], batch["dataset"]
        label, labelled = self.label_loss(logits, batch)
        if "soft_logits" not in batch:
            return Losses({name: Term(label, labelled)})
        mask = allowed_positions(batch)[:, None, :] if isinstance(task.kind, Span) else None
        soft, softened = soft_loss_sum(
            logits,
            batch,
            temperature=self.temperature,
            mask=mask,
            regression=isinstance(task.kind, Regress),
        )
        if isinstance(task.kind, Regress):
            soft = soft / task.kind.range**2
        weight = self.kd_weight(0.0 if self.kd_weight.is_constant else batch["fraction"])
        unit = torch.ones((), device=logits.device)
        return Losses(
            {
                name: Term(label, labelled, 1 - weight),
                f"{name}_soft": Term(soft, softened, weight),
            },
            {} if self.kd_weight.is_constant else {"kd_weight": (weight * unit, unit)},
        )
