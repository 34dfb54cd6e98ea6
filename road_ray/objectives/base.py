"""What every objective is. Adding one is a file with a class of this shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from road_ray.data.batching import NOISE_CHANNELS, Batch


@dataclass(frozen=True)
class Term:
    """One summand of a training loss: ``weight * total / count``, the count taken over all workers.

    ``total`` is a scalar that carries the gradient, ``count`` the number of items (tokens or
    examples) that it sums over on this worker. Only the loop divides, so 1 worker equals N workers
    whatever their counts.
    """

    total: Tensor
    count: Tensor
    weight: float = 1.0


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
