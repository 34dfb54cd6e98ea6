"""What looks at every update before it is made: a loss that is not finite, a loss that jumps."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from road_ray.errors import DivergedError
from road_ray.training.checkpoint.async_save import AsyncSaver
from road_ray.training.context import Training
from road_ray.training.step import StepResult

_log = logging.getLogger(__name__)

_WINDOW_STEPS = 50  # long enough to hold a hard batch of every data set of a mixture
_LEAST_STEPS = 10  # before them nobody knows what is usual
_FACTOR = 2.0  # times the largest loss of the window; our choice
_NEW_LEVEL_STEPS = 5  # spikes in a row are none: the level has changed


class SpikeDetector:
    """Tells a loss that jumps from those before it; ``recent`` and ``in_a_row`` are all it
    remembers.
    """

    def __init__(self, recent: Iterable[float] = (), in_a_row: int = 0) -> None:
        self.recent = deque(recent, maxlen=_WINDOW_STEPS)
        self.in_a_row = in_a_row  # spikes, up to the last loss

    def seen(self, loss: float) -> bool:
        """Whether ``loss`` is over twice the largest of the last 50 steps, at least ten of them.

        After five in a row the new level is the usual one.
        """
        if len(self.recent) >= _LEAST_STEPS and loss > _FACTOR * max(self.recent):
            self.in_a_row += 1
            if self.in_a_row < _NEW_LEVEL_STEPS:
                return True
            self.recent.clear()
        self.in_a_row = 0
        self.recent.append(loss)
        return False


class LossGuard:
    """Admits the updates of one training, or not; the same on all its workers."""

    def __init__(self, training: Training, saver: AsyncSaver, kept: Mapping[str, Any]) -> None:
        self._training, self._saver = training, saver
        # Older checkpoints have neither.
        self._spikes = SpikeDetector(kept.get("losses", ()), kept.get("spikes_in_a_row", 0))

    @property
    def memory(self) -> dict[str, Any]:
        """What a resumed run must know to judge as this one would; kept in its checkpoints."""
        return {"losses": list(self._spikes.recent), "spikes_in_a_row": self._spikes.in_a_row}

    def admits(self, step: int, result: StepResult, norm: Tensor) -> bool:
        """Whether the update of ``step`` is to be made. Raises ``DivergedError`` before one that is
        not finite, and before one of a spike where ``training.on_spike`` says stop.
        """
        if not torch.isfinite(norm + result.loss):
            raise self._not_finite(step, result, norm)
        loss = float(result.loss)
        if not self._spikes.seen(loss):
            return True
        training, policy = self._training, self._training.config.on_spike
        largest = max(self._spikes.recent)
        training.journal.event(
            "loss_spike",
            step=step,
            loss=loss,
            largest_before=largest,
            datasets=result.datasets,
            rows=_rows_of(result),
            action=policy,
        )
        told = (
            f"step {step}: the loss jumped to {loss:.4g}; the largest of the last "
            f"{len(self._spikes.recent)} steps was {largest:.4g}\n"
            f"  data: {', '.join(result.datasets)}; rows on this worker: {_rows_of(result)}"
        )
        if policy == "stop":
            raise DivergedError(
                f"{told}\n  fix: look at these rows; training.on_spike=skip leaves them out, "
                f"warn learns from them\n  kept: {self._kept()}; the update was not made"
            )
        if training.journal.enabled:
            _log.warning("%s%s", told, "\n  the update was left out" if policy == "skip" else "")
        return policy == "warn"

    def _not_finite(self, step: int, result: StepResult, norm: Tensor) -> DivergedError:
        bad = [name for name, (total, _) in result.sums.items() if not torch.isfinite(total).all()]
        where = ", ".join(bad) or "no loss term of this worker"
        return DivergedError(
            f"step {step}: gradient norm {float(norm)}, loss {float(result.loss)}\n"
            f"  not finite: {where}; data: {', '.join(result.datasets)}; "
            f"rows on this worker: {_rows_of(result)}\n"
            "  fix: lower optimizer.peak_lr, lengthen the warm-up, or look at these rows\n"
            f"  kept: {self._kept()}; the update was not made"
        )

    def _kept(self) -> str:
        self._saver.finish()
        return str(self._training.checkpoints.newest() or "no checkpoint yet")


def _rows_of(result: StepResult) -> list[int]:
    """The first rows of the step on this worker."""
    return [row for part in result.rows for row in part.tolist()][:8]
