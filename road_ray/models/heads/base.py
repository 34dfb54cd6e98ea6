"""What every head says of itself, so that nobody need know which it is."""

from __future__ import annotations

from typing import ClassVar

from torch import nn


class Head(nn.Module):
    """What a task adds to the encoder: ``forward(hidden)`` gives the logits, or ``forward(hidden,
    batch)`` where it ``reads_batch``.
    """

    reads_batch: ClassVar[bool] = False
    # Of how many of the last layers, side by side, ``hidden`` is made; the encoder then stays as it
    # is. None: of the last layer alone, of an encoder that learns too.
    feature_layers: ClassVar[int | None] = None
