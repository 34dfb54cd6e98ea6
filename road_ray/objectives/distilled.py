"""Learning from gold and from the soft logits that an ensemble of teachers left in the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from road_ray.data.batches import Batch, allowed_positions
from road_ray.data.features import UNKNOWN
from road_ray.data.specs import Regress, Span, Task
from road_ray.distillation.losses import check_temperature, kd_total, regression_total
from road_ray.errors import ConfigError
from road_ray.models.multitask import MultitaskModel
from road_ray.models.terms import Term
from road_ray.objectives.supervised import Supervised, gold_total


class Distilled(Supervised):
    """``(1 - kd_weight) * gold loss + kd_weight * T^2 * KL(teachers || student)``, mean over
    examples (or tagged tokens).

    An example with unknown gold counts in the soft loss all the same. The batch carries
    ``soft_logits`` ``[B, ..., C]`` (already weighted) and ``kd_keep``. Source:
    Hinton et al. 2015; ROaD part 1, section 3.5; which of the two the weight multiplies is named by
    ``kd_weight``.
    """

    def __init__(
        self,
        model: MultitaskModel,
        *,
        kd_weight: float = 0.5,
        temperature: float = 2.0,
        export_task: str | None = None,
    ) -> None:
        super().__init__(model, export_task=export_task)
        if not 0 <= kd_weight <= 1:
            raise ConfigError(f"distillation.kd_weight = {kd_weight}\n  allowed: 0 <= value <= 1")
        check_temperature(temperature)
        self.kd_weight = kd_weight
        self.temperature = temperature

    def forward(self, batch: Batch) -> dict[str, Term]:
        task = self.model.tasks[batch["task"]]
        logits = self.model(batch)
        gold, count = gold_total(task, logits, batch)
        soft, softened = self._soft_total(task, logits, batch)
        name = str(batch["dataset"])
        return {
            name: Term(gold, count, 1 - self.kd_weight),
            f"{name}_soft": Term(soft, softened, self.kd_weight),
        }

    def _soft_total(self, task: Task, logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """The sum over examples (tokens of a tagging), and how many there are: both ``[]``."""
        soft, keep = batch["soft_logits"], batch["kd_keep"]
        count = torch.tensor(len(logits), device=logits.device)
        if isinstance(task.kind, Regress):
            return regression_total(logits, soft, keep=keep), count
        mask = None
        if isinstance(task.kind, Span):
            mask = allowed_positions(batch)[:, None, :]
        elif logits.ndim > 2:  # each token that has a label is an example
            known = batch["labels"] != UNKNOWN
            logits, soft, keep = logits[known], soft[known], keep[known]
            count = known.sum()
        total = kd_total(logits, soft, temperature=self.temperature, mask=mask, keep=keep)
        return total, count
