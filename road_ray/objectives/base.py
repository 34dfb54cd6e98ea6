"""Interface of an objective: a module that returns the terms of a loss, and metrics beside them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeAlias

from torch import Tensor, nn
from transformers import PreTrainedModel

from road_ray.data.batching import NOISE_CHANNELS, Batch

Metrics: TypeAlias = dict[str, tuple[Tensor, Tensor]]
"""Sums and counts ``(sum, count)`` by name, without gradient; the journal has their quotients."""


@dataclass(frozen=True)
class Term:
    """One summand of a training loss: ``weight * total / count``, the count taken over all workers.

    ``total`` is a scalar that carries the gradient, ``count`` the number of items (tokens or
    examples) that it sums over on this worker. Only the training step divides, so one worker gives
    the same result as N workers, whatever their counts.
    """

    total: Tensor
    count: Tensor
    weight: float = 1.0


@dataclass(frozen=True)
class Losses:
    """Result of a forward pass: the terms of the loss, and metrics for the journal.

    A dataclass of dicts, in which ``DistributedDataParallel`` finds the tensors.
    """

    terms: dict[str, Term]
    metrics: Metrics = field(default_factory=dict)


class Objective(nn.Module, ABC):
    """``forward(batch) -> Losses`` of a prepared batch. It never divides by a count, writes a log,
    reads its rank or waits for the device: no ``.item()``, no boolean index, no shape that depends
    on values.

    ``sparse`` is true if a step may leave some parameters without gradient, because its passes have
    different heads.
    """

    metric_names: ClassVar[tuple[str, ...]] = ()
    """Names of the terms and metrics that ``forward`` of a pre-training objective returns."""
    sparse: bool = False
    encoder: PreTrainedModel
    noise_channels: int = NOISE_CHANNELS  # channels of `batch["noise"]` that it reads

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch with facts that ``forward`` would otherwise read back from the device.

        It is called once, on the host, before the batch is moved, so that the number of positions
        is known without waiting for the device.
        """
        return {**batch, "unpadded": bool(batch["attention_mask"].all())}

    @abstractmethod
    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the ``count`` of each term that ``forward`` returns for this prepared batch. It
        is known before the forward pass, so that the pieces of one batch are divided by the count
        of the whole, and workers exchange counts once a step.
        """

    @abstractmethod
    def forward(self, batch: Batch) -> Losses:
        """Return the terms of the loss of one batch, and its metrics."""

    @abstractmethod
    def export(self, directory: Path) -> None:
        """Write the trained model in the format of ``transformers``."""
