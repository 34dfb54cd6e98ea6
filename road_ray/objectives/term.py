"""The summands of a training loss."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


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
