"""The best spans of a window, against exhaustive search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from road_ray.evaluation.spans.span_search import Span, window_spans


def by_trying_all(
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    opening: NDArray[np.bool_],
    closing: NDArray[np.bool_],
    longest: int,
) -> list[Span]:
    pairs = itertools.product(np.flatnonzero(opening), np.flatnonzero(closing))
    return sorted(
        Span(-(start[i] + end[j]), 0, int(i), int(j)) for i, j in pairs if i <= j < i + longest
    )


@pytest.mark.parametrize("seed", range(40))
def test_window_spans_equal_trying_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length = int(rng.integers(1, 60))
    # Few distinct values make ties; gaps in the context and in max-context are allowed.
    values = rng.integers(-3, 4, (2, length)) if seed % 2 else rng.normal(size=(2, length))
    start, end = values.astype(np.float64)
    closing = rng.random(length) < 0.8
    opening = closing & (rng.random(length) < 0.6)
    n_best, longest = int(rng.integers(1, 25)), int(rng.integers(1, 35))
    spans = window_spans(0, start, end, opening, closing, n_best=n_best, longest=longest)
    assert spans == by_trying_all(start, end, opening, closing, longest)[:n_best]
