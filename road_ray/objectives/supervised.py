"""Supervised training: cross-entropy of classes, tags, choices, each of several labels, and the
start and end of a span; squared error of numbers. With teachers, on their soft logits too.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from road_ray.data.batching import Batch, allowed_positions, further_labels
from road_ray.data.examples import UNKNOWN
from road_ray.data.task_and_dataset import JointSpan, MultiLabel, Regress, Span, Tag, Task
from road_ray.distillation.hidden_state_matching import StateMatching
from road_ray.distillation.losses import soft_loss_sum
from road_ray.distillation.schedule import Schedule
from road_ray.models.multitask import MultitaskModel
from road_ray.objectives.base import Losses, Metrics, Objective, Term

_ANSWERABILITY_WEIGHT = 0.5


def label_loss(
    task: Task,
    logits: Tensor,
    batch: Batch,
    *,
    class_weights: Tensor | None = None,
    smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Return the summed loss and the number of known labels, one an example, tagged word, or label
    of several: both ``[]``. ``class_weights`` ``[C]`` and ``smoothing`` are those of PyTorch's
    cross-entropy, for classes, tags and choices; the sum is divided by the number of examples, not
    by the sum of their weights.

    Of several labels it is the binary cross-entropy of each, so that the mean is what transformers
    computes for ``multi_label_classification``; ``class_weights`` weight the rows that have the
    label (PyTorch's ``pos_weight``), and smoothing ``s`` makes the targets ``s / 2`` and
    ``1 - s / 2``.

    For spans it is the mean of the start's and the end's cross-entropy over allowed positions;
    joint ones add half the cross-entropy of "no answer"
    (google-research/electra, configure_finetuning.py). Squared errors of numbers are in units of
    the task's range.
    """
    labels: Tensor = batch["start_positions"] if "start_positions" in batch else batch["labels"]
    logits, known = logits.float(), labels != UNKNOWN
    count = known.sum()
    if isinstance(task.kind, Span):
        # Infinite, so that a label outside the allowed positions stops the run.
        masked = logits[:, :2].masked_fill(~allowed_positions(batch)[:, None, :], float("-inf"))
        labels = torch.stack([labels, batch["end_positions"]], 1)
        total = functional.cross_entropy(
            masked.flatten(0, 1), labels.flatten(), reduction="sum", ignore_index=UNKNOWN
        )
        if isinstance(task.kind, JointSpan):
            answerless = functional.binary_cross_entropy_with_logits(
                logits[:, 2, 0], batch["impossible"].float(), reduction="none"
            )
            return total / 2 + _ANSWERABILITY_WEIGHT * (answerless * known).sum(), count
        return total / 2, count
    if isinstance(task.kind, Regress):
        error = ((logits.squeeze(-1) - labels) / task.kind.range) ** 2
        return (error * known).sum(), count
    if isinstance(task.kind, MultiLabel):
        losses = functional.binary_cross_entropy_with_logits(
            logits,
            labels.float() * (1 - smoothing) + smoothing / 2,
            pos_weight=None if class_weights is None else class_weights.to(logits),
            reduction="none",
        )
        return torch.where(known, losses, 0.0).sum(), count
    total = functional.cross_entropy(
        logits.flatten(0, -2),
        labels.flatten(),
        weight=None if class_weights is None else class_weights.to(logits),
        reduction="sum",
        ignore_index=UNKNOWN,
        label_smoothing=smoothing,
    )
    return total, count


class Supervised(Objective):
    """Training on labels and, where a batch has them, on the logits of teachers: ``(1 - kd_weight)
    * label loss + kd_weight * T^2 * KL(teachers || student)``, mean over examples (or tagged
    tokens). Several tasks may share the encoder, with one head each.

    ``weights`` multiply the loss of a data set, or of a task; the default is 1. ``one_dataset``:
    all batches are of one data set, so that each has labels for all heads. ``class_weights``
    ``[C]`` and ``label_smoothing`` are those of `label_loss`; further heads have neither.

    A batch with teachers has ``soft_logits`` ``[B, ..., C]`` (already weighted) and ``kd_keep``; an
    example without a label still counts in its soft loss. Where it also has ``teacher_logits``
    ``[M, B, ..., C]`` and ``teacher_weights``, the loss is the mean of each teacher's divergence. A
    ``kd_weight`` that changes reads the batch's ``fraction`` of the training. ``matching`` adds the
    differences of the encoder's states from a teacher's; its projections are not exported. Source:
    Hinton et al. 2015; ROaD part 1, section 3.5.
    """

    def __init__(
        self,
        model: MultitaskModel,
        *,
        weights: Mapping[str, float] | None = None,
        one_dataset: bool = False,
        class_weights: Tensor | None = None,
        label_smoothing: float = 0.0,
        kd_weight: Schedule | None = None,
        temperature: float = 2.0,
        matching: StateMatching | None = None,
    ) -> None:
        super().__init__()
        self.label_smoothing = label_smoothing
        self.register_buffer("class_weights", class_weights, persistent=False)
        self.model = model
        self.weights = dict(weights or {})
        self.encoder = model.encoder
        own_head = any(task.head for task in model.tasks.values())  # may leave parameters unused
        self.sparse = own_head or (len(model.tasks) > 1 and not one_dataset)
        self.kd_weight = kd_weight or Schedule()
        self.temperature, self.matching = temperature, matching

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        name = batch["dataset"]
        own = batch["start_positions"] if "start_positions" in batch else batch["labels"]
        known = (own != UNKNOWN).sum()
        counts = {name: known}
        for task, labels in further_labels(batch).items():
            counts[f"{name}_{task}"] = (labels != UNKNOWN).sum()
        if "soft_logits" in batch:
            is_tagging = isinstance(self.model.tasks[batch["task"]].kind, Tag)
            rows = torch.full((), len(batch["input_ids"]), device=batch["input_ids"].device)
            counts[f"{name}_soft"] = known if is_tagging else rows
        if self.matching is not None:
            tokens = batch["attention_mask"].bool().sum()
            counts |= {f"{name}_{kind}": tokens for kind in self.matching.weights}
        return counts

    def forward(self, batch: Batch) -> Losses:
        model, name, further = self.model, batch["dataset"], dict[str, Term]()
        output = model.states(batch, **({} if self.matching is None else self.matching.outputs))
        hidden = output.last_hidden_state
        for other, labels in further_labels(batch).items():
            logits = model.heads[model.head_names[other]](hidden, batch)
            loss = label_loss(model.tasks[other], logits, {"labels": labels})
            further[f"{name}_{other}"] = Term(*loss)
        task, logits = model.tasks[batch["task"]], model.read(hidden, batch)
        weights: Any = self.class_weights  # a buffer: a copy in every step would wait for a GPU
        options = {"class_weights": weights, "smoothing": self.label_smoothing}
        label = Term(*label_loss(task, logits, batch, **options))
        own, metrics = {name: label}, Metrics()
        if "soft_logits" in batch:
            soft, softened = soft_loss_sum(logits, batch, temperature=self.temperature)
            if isinstance(task.kind, Regress):
                soft = soft / task.kind.range**2
            weight = self.kd_weight(0.0 if self.kd_weight.is_constant else batch["fraction"])
            own = {name: replace(label, weight=1 - weight)}
            own[f"{name}_soft"] = Term(soft, softened, weight)
            if not self.kd_weight.is_constant:
                unit = torch.ones((), device=logits.device)
                metrics["kd_weight"] = (weight * unit, unit)
        if self.matching is not None:
            count = batch["attention_mask"].bool().sum()
            for kind, (total, share) in self.matching(output, batch).items():
                further[f"{name}_{kind}"] = Term(total, count, share)
        factor = self.weights.get(name, self.weights.get(batch["task"], 1.0))
        terms = (own | further).items()
        weighted = {key: replace(term, weight=factor * term.weight) for key, term in terms}
        return Losses(weighted, metrics)

    def export(self, directory: Path) -> None:
        self.model.export(directory, next(iter(self.model.tasks)))
