"""Signs of illness in a pre-training: norms of the networks' gradients, and collapses."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from road_ray.objectives.base import Objective
from road_ray.training.fsdp import full_tensor
from road_ray.training.monitoring.journal import Journal

_GRACE = 0.25  # of the run, in which a detector may still say "original" to everything
_ROWS = 5  # of the journal, one after the other
_ADVICE = {
    "detector_collapse": "the detector calls every token original: start from a trained generator "
    "(generator.init), lower optimizer.peak_lr, lengthen the warm-up or raise "
    "objective.choose_fraction",
    "generator_collapse": "the generator draws the same few tokens: lower optimizer.peak_lr, lower "
    "objective.discriminator_weight, or raise objective.temperature",
}


def gradient_norms(objective: Objective) -> dict[str, float]:
    """Norm of the gradient of each network of an objective; what two share counts in both.

    Only objectives of several networks have any.
    """
    parts = {
        name: [p.grad for p in part.parameters() if p.grad is not None]
        for name, part in objective.named_children()
        if name != "encoder"
    }
    found = {name: gradients for name, gradients in parts.items() if gradients}
    if len(found) < 2:
        return {}
    norms = torch.stack([full_tensor(torch.nn.utils.get_total_norm(found[name])) for name in found])
    return {
        f"train/grad_norm_{name}": value for name, value in zip(found, norms.tolist(), strict=True)
    }


class CollapseMonitor:
    """Looks at every row of the journal and writes an event, once, when a network has collapsed."""

    def __init__(self, journal: Journal, total_steps: int) -> None:
        self._journal, self._total = journal, total_steps
        self._bad: dict[str, int] = dict.fromkeys(_ADVICE, 0)
        self._told: set[str] = set()

    def look(self, step: int, row: Mapping[str, float]) -> None:
        """Count how long an illness lasts; tell of it after five rows."""
        if step < _GRACE * self._total:
            return
        recall = row.get("train/detection_recall", 1.0)
        area = row.get("train/detection_auc", 1.0)
        signs = {
            "detector_collapse": recall < 0.005 and abs(area - 0.5) < 0.01,
            "generator_collapse": row.get("train/generator_entropy", 1.0) < 0.02,
        }
        for kind, present in signs.items():
            self._bad[kind] = self._bad[kind] + 1 if present else 0
            if self._bad[kind] >= _ROWS and kind not in self._told:
                self._told.add(kind)
                self._journal.event(kind, step=step, advice=_ADVICE[kind])
