"""Checks of every update before it is made: non-finite losses and loss spikes."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from road_ray.errors import DivergedError
from road_ray.training.checkpoint.async_save import AsyncSaver
from road_ray.training.optimization.gradient_accumulation import StepResult
from road_ray.training.optimization.optimizer import ElectraAdamW
from road_ray.training.run_context import Training

_log = logging.getLogger(__name__)

_WINDOW_STEPS = 50  # long enough to hold a hard batch of every data set of a mixture
_LEAST_STEPS = 10  # needed to know the usual level
_FACTOR = 2.0  # times the largest loss of the window; our choice
_NEW_LEVEL_STEPS = 5  # spikes in a row mean that the level has changed
_MOST_WARNINGS = 3  # the loss of rows that a model knows by heart jumps often, and harmlessly


class SpikeDetector:
    """Detector of loss spikes. Its state is the ``recent`` losses and the spikes ``in_a_row``."""

    def __init__(self, recent: Iterable[float] = (), in_a_row: int = 0) -> None:
        self.recent = deque(recent, maxlen=_WINDOW_STEPS)
        self.in_a_row = in_a_row  # spikes, up to the last loss

    def is_spike(self, loss: float) -> bool:
        """Add a loss; return True if it is more than twice the largest of the last 50, of which
        there must be at least ten. The fifth spike in a row counts as the new level.
        """
        if len(self.recent) >= _LEAST_STEPS and loss > _FACTOR * max(self.recent):
            self.in_a_row += 1
            if self.in_a_row < _NEW_LEVEL_STEPS:
                return True
            self.recent.clear()
        self.in_a_row = 0
        self.recent.append(loss)
        return False


def is_deferrable(training: Training, optimizer: ElectraAdamW, device: torch.device) -> bool:
    """Return True if the guard need not wait for every loss: on a GPU, with an optimizer that can
    skip updates on the device.
    """
    skips = type(optimizer) is ElectraAdamW and not training.config.fsdp
    return device.type == "cuda" and skips


class LossGuard:
    """Guard that makes the updates of finite losses only, the same on all workers.

    ``deferred``: losses are read in ``check`` only. Until then the device skips the update of a
    non-finite loss and all later ones, so that the error leaves the same weights.
    """

    def __init__(
        self,
        training: Training,
        saver: AsyncSaver,
        state: Mapping[str, Any],
        deferred: bool = False,
    ) -> None:
        self._training, self._saver, self._deferred = training, saver, deferred
        self._unread: list[tuple[int, StepResult, Tensor]] = []
        self._blocked: Tensor | None = None
        self._num_spikes = 0
        # Checkpoints of older versions lack both entries.
        self._spikes = SpikeDetector(state.get("losses", ()), state.get("spikes_in_a_row", 0))

    @property
    def memory(self) -> dict[str, Any]:
        """State to save with checkpoints, so that a resumed run makes the same decisions. Calls
        ``check`` first.
        """
        self.check()
        return {"losses": list(self._spikes.recent), "spikes_in_a_row": self._spikes.in_a_row}

    def update(self, step: int, result: StepResult, norm: Tensor, optimizer: ElectraAdamW) -> None:
        """Make the update of ``step``. Raises ``DivergedError`` for a non-finite loss or gradient
        norm; if deferred, ``check`` raises it.
        """
        if not self._deferred:
            self._check(step, result, norm)
            optimizer.step()
            return
        bad = ~torch.isfinite(norm + result.loss)
        self._blocked = bad if self._blocked is None else self._blocked | bad
        optimizer.found_inf = self._blocked.float()  # PyTorch's fused kernels read it
        optimizer.step()
        self._unread.append((step, result, norm))

    def check(self) -> None:
        """Check the losses of the steps since the last call; waits for the device."""
        unread, self._unread = self._unread, []
        for step, result, norm in unread:
            self._check(step, result, norm)

    def _check(self, step: int, result: StepResult, norm: Tensor) -> None:
        if not torch.isfinite(norm + result.loss):
            raise self._not_finite(step, result, norm)
        loss = float(result.loss)
        if not self._spikes.is_spike(loss):
            return
        journal, largest = self._training.journal, max(self._spikes.recent)
        journal.event(
            "loss_spike",
            step=step,
            loss=loss,
            largest_before=largest,
            datasets=result.datasets,
            rows=_rows_of(result),
        )
        self._num_spikes += 1
        if journal.enabled and self._num_spikes <= _MOST_WARNINGS:
            _log.warning(
                "step %d: the loss jumped to %.4g; the largest of the last %d steps was %.4g\n"
                "  data: %s; the rows of this and of further jumps are in events.jsonl",
                step,
                loss,
                len(self._spikes.recent),
                largest,
                ", ".join(result.datasets),
            )

    def _not_finite(self, step: int, result: StepResult, norm: Tensor) -> DivergedError:
        self._saver.finish()
        kept = self._training.checkpoints.newest() or "no checkpoint yet"
        bad = [name for name, (total, _) in result.sums.items() if not torch.isfinite(total).all()]
        where = ", ".join(bad) or "no loss term of this worker"
        return DivergedError(
            f"step {step}: gradient norm {float(norm)}, loss {float(result.loss)}\n"
            f"  not finite: {where}; data: {', '.join(result.datasets)}; "
            f"rows on this worker: {_rows_of(result)}\n"
            "  fix: lower optimizer.peak_lr, lengthen the warm-up, or inspect these rows\n"
            f"  kept: {kept}; the update was not made"
        )


def _rows_of(result: StepResult) -> list[int]:
    """Return the first eight row numbers of the step on this worker."""
    return [row for part in result.rows for row in part.tolist()][:8]
