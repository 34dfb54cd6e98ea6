"""Arrays of rows of unequal length."""

from __future__ import annotations

import numpy as np

from road_ray.data.features.examples_and_features import Longs


def starts_of(lengths: Longs) -> Longs:
    """Return the start of each row if rows of these lengths are concatenated."""
    return np.cumsum(lengths) - lengths
