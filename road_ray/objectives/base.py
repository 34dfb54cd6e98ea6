"""What every objective is. Adding one is a file with a class of this shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from road_ray.data.batching import NOISE_CHANNELS, Batch
from road_ray.objectives.term import Term


class Objective(nn.Module, ABC):
    """``forward(batch) -> dict[str, Term]``; never divides by a count, logs or knows its worker.

    ``sparse`` tells that a step may leave some parameters without gradient (different heads per
    pass). ``gauges`` of the last forward pass are sums and counts ``(sum, count)`` for the journal,
    without gradient.
    """

    sparse: bool = False
    encoder: PreTrainedModel
    noise_channels: int = NOISE_CHANNELS  # uniform numbers a position that `batch["noise"]` brings

    def __init__(self) -> None:
        super().__init__()
        self.gauges: dict[str, tuple[Any, Any]] = {}

    @abstractmethod
    def forward(self, batch: Batch) -> dict[str, Term]:
        """The summands of the loss of one batch."""

    @abstractmethod
    def export(self, directory: Path) -> None:
        """Write what was learnt as plain ``transformers`` loads it."""
