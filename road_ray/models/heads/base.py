"""Interface of a head."""

from __future__ import annotations

from typing import ClassVar

from torch import nn


class Head(nn.Module):
    """Output layers of a task: ``forward(hidden)`` returns the logits, or, where ``reads_batch`` is
    true, ``forward(hidden, batch)``.
    """

    reads_batch: ClassVar[bool] = False
