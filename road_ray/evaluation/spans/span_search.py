"""Exact search for the best spans of one window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import Features, Ints

Logits = Sequence[NDArray[np.float32]]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Span(NamedTuple):
    """A span of one window. Spans sort best first, ties from the left."""

    cost: float  # -(start logit + end logit)
    row: int
    start: int
    end: int


def window_spans(
    row: int,
    start: Floats,
    end: Floats,
    opening: Flags,
    closing: Flags,
    *,
    n_best: int,
    longest: int,
) -> list[Span]:
    """Return the ``n_best`` spans of a window, ranked; all arrays are ``[L]``.

    A span starts on an ``opening`` token, ends on a ``closing`` one at or after it, and has at most
    ``longest`` tokens. Equal to a search over all pairs, ties included (leftmost, then shortest).
    """
    allowed = np.flatnonzero(closing)
    if not len(allowed) or not opening.any():
        return []
    low, high = int(allowed[0]), int(allowed[-1]) + 1
    starts = np.where(opening, start, -np.inf)[low:high]
    ends = np.full(high - low + longest - 1, -np.inf)
    ends[: high - low] = np.where(closing, end, -np.inf)[low:high]
    reach = sliding_window_view(ends, longest)  # [i, k]: end logit of the k + 1 tokens from i
    # The n best spans start at the n best starts, ranked by the best span of each: only those
    # starts are expanded. Stable sorts keep ties in order.
    best_of_start = starts + reach.max(axis=1)
    chosen = np.sort(np.argsort(-best_of_start, kind="stable")[:n_best])
    scores = (starts[chosen, None] + reach[chosen]).ravel()
    top = np.argsort(-scores, kind="stable")[:n_best]
    top = top[np.isfinite(scores[top])]
    firsts = low + chosen[top // longest]
    spans = zip(
        (-scores[top]).tolist(), firsts.tolist(), (firsts + top % longest).tolist(), strict=True
    )
    return [Span(cost, row, first, last) for cost, first, last in spans]


def span_columns(features: Features) -> tuple[Ints, Flags]:
    """Return ``offsets`` and ``max_context`` of span rows."""
    assert features.offsets is not None, "rows of a span task have offsets"
    assert features.max_context is not None
    return features.offsets, features.max_context


def spans_by_question(
    features: Features,
    num_questions: int,
    n_best: int,
    search: Callable[[int, Flags, Flags], tuple[float, list[Span]]],
) -> tuple[list[float], list[list[Span]]]:
    """Return the lowest null score and the ``n_best`` spans of each question over its windows.

    ``search(row, opening, closing)`` returns those of a window. A span starts and ends on context
    tokens, and starts where its window has maximal context, so that no span counts in two windows.
    """
    offsets, max_context = span_columns(features)
    null, spans = [np.inf] * num_questions, [list[Span]() for _ in range(num_questions)]
    bounds = features.bounds.tolist()
    for row, index in enumerate(features.example.tolist()):
        tokens = slice(bounds[row], bounds[row + 1])
        context = offsets[tokens, 0] >= 0
        lowest, found = search(row, context & max_context[tokens], context)
        null[index] = min(null[index], lowest)
        spans[index] += found
    return null, [sorted(candidates)[:n_best] for candidates in spans]
