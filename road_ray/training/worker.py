"""What the loop may know of the process that it runs in; nothing here knows Ray."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Worker:
    """One of ``size`` processes that train the same model on the same steps, each on its share of
    every batch.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def alone(cls) -> Worker:
        """This process and no other, on the best device at hand."""
        return cls(device=torch.device("cuda" if torch.cuda.is_available() else "cpu"))

    @property
    def leads(self) -> bool:
        """True for the one worker that writes files."""
        return self.rank == 0

    def wrap(self, module: nn.Module, *, sparse: bool) -> nn.Module:
        """The module with gradients summed over workers; itself when alone, or in parts.

        ``sparse`` tells that a step may leave parameters untouched (different heads per pass).
        """
        if self.size == 1:
            return module
        from torch.distributed.fsdp import FSDPModule
        from torch.nn.parallel import DistributedDataParallel

        if isinstance(module, FSDPModule):
            return module

        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(module, device_ids=devices, find_unused_parameters=sparse)

    def total(self, values: Tensor) -> Tensor:
        """``values`` summed over all workers; a new tensor, without gradient."""
        values = values.detach().clone()
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def union(self, names: Iterable[str]) -> list[str]:
        """Names that any worker has, in one order for all."""
        mine = "\n".join(names).encode()
        lengths = torch.zeros(self.size, device=self.device)
        lengths[self.rank] = len(mine)
        lengths = self.total(lengths)
        if not lengths.any():
            return []
        told = torch.zeros(self.size, int(lengths.max()), device=self.device)
        told[self.rank, : len(mine)] = torch.tensor([*mine], device=self.device)
        texts = (
            bytes(row[: int(length)].int().tolist()).decode()
            for row, length in zip(self.total(told), lengths, strict=True)
        )
        return sorted({name for text in texts for name in text.split("\n") if name})

    def barrier(self) -> None:
        """Wait until every worker is here."""
        if self.size > 1:
            dist.barrier()
