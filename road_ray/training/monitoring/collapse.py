"""Health of a pre-training: gradient norms of each network, and detection of collapse."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from road_ray.objectives.base import Objective
from road_ray.training.fsdp import full_tensor
from road_ray.training.monitoring.metrics_journal import Journal

_GRACE = 0.25  # of the run, in which the detector may still call every token original
_ROWS = 5  # consecutive rows of the journal
_ADVICE = {
    "detector_collapse": "the detector calls every token original: start from a trained generator "
    "(generator.init), lower optimizer.peak_lr, lengthen the warm-up or raise "
    "objective.choose_fraction",
    "generator_collapse": "the generator draws the same few tokens: lower optimizer.peak_lr, lower "
    "objective.discriminator_weight, or raise objective.options.temperature",
}


def gradient_norms(objective: Objective) -> dict[str, float]:
    """Return the gradient norm of each network of an objective; shared parameters count in both.
    Empty for objectives with one network.
    """
    parts = {
        name: [p.grad for p in part.parameters() if p.grad is not None]
        for name, part in objective.named_children()
        if name != "encoder"
    }
    gradients_of = {name: gradients for name, gradients in parts.items() if gradients}
    if len(gradients_of) < 2:
        return {}
    norms = torch.stack(
        [full_tensor(torch.nn.utils.get_total_norm(gradients_of[name])) for name in gradients_of]
    )
    return {
        f"train/grad_norm_{name}": value
        for name, value in zip(gradients_of, norms.tolist(), strict=True)
    }


class CollapseMonitor:
    """Checks rows of the journal and writes an event, once, when a network has collapsed."""

    def __init__(self, journal: Journal, total_steps: int) -> None:
        self._journal, self._total = journal, total_steps
        self._bad: dict[str, int] = dict.fromkeys(_ADVICE, 0)
        self._reported: set[str] = set()

    def check(self, step: int, row: Mapping[str, float]) -> None:
        """Check one row; five bad rows in a row make an event."""
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
            if self._bad[kind] >= _ROWS and kind not in self._reported:
                self._reported.add(kind)
                self._journal.event(kind, step=step, advice=_ADVICE[kind])
