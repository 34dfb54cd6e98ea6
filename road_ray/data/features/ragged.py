"""Arrays of rows of unequal length."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from road_ray.data.features.examples_and_features import Ints, Longs

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Ragged:
    """Row ``r`` is ``ids[starts[r]:starts[r] + lengths[r]]``; equal rows may share their place.

    ``offsets`` are ``[tokens, 2]``: the characters that a token stands for, beside ``ids``.
    """

    ids: Ints
    starts: Longs
    lengths: Longs
    offsets: Ints | None = None

    def rows(self, index: Longs | slice) -> Ragged:
        """Return some of the rows, over the same tokens."""
        return replace(self, starts=self.starts[index], lengths=self.lengths[index])

    def truncated(self, lengths: Longs) -> Ragged:
        """Return all rows, truncated to these lengths."""
        return replace(self, lengths=lengths)


def starts_of(lengths: Longs) -> Longs:
    """Return the start of each row if rows of these lengths are concatenated."""
    return np.cumsum(lengths) - lengths


def ranges(starts: Longs, lengths: Longs) -> Longs:
    """Return ``start, start + 1, ...``, ``lengths[r]`` numbers for row ``r``, in one array."""
    shift = np.repeat(starts - starts_of(lengths), lengths)
    return shift + np.arange(len(shift))
