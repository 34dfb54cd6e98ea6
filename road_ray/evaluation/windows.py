"""The best spans of one window, exactly, and the checks that logits fit the rows they are for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from road_ray.data.features.types import Features, Ints, SpanExample
from road_ray.errors import DataError

Logits = Sequence[NDArray[np.float32]]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Span(NamedTuple):
    """A span of one window; sorting ranks the best first and ties from the left."""

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
    """The ``n_best`` spans of a window, ranked; all arrays ``[L]``.

    A span starts on an ``opening`` token, ends on a ``closing`` one not before, and has at most
    ``longest`` tokens. Equal to trying all pairs, ties included (leftmost, then shortest).
    """
    allowed = np.flatnonzero(closing)
    if not len(allowed) or not opening.any():
        return []
    low, high = int(allowed[0]), int(allowed[-1]) + 1
    starts = np.where(opening, start, -np.inf)[low:high]
    ends = np.full(high - low + longest - 1, -np.inf)
    ends[: high - low] = np.where(closing, end, -np.inf)[low:high]
    reach = sliding_window_view(ends, longest)  # [i, k]: end logit of the k + 1 tokens from i
    # The n best spans start where the best span of a start is among the n best: only those starts
    # are spelled out. Stable sorts keep ties in order.
    best_of_start = starts + reach.max(axis=1)
    kept = np.sort(np.argsort(-best_of_start, kind="stable")[:n_best])
    scores = (starts[kept, None] + reach[kept]).ravel()
    top = np.argsort(-scores, kind="stable")[:n_best]
    top = top[np.isfinite(scores[top])]
    firsts = low + kept[top // longest]
    found = zip(
        (-scores[top]).tolist(), firsts.tolist(), (firsts + top % longest).tolist(), strict=True
    )
    return [Span(cost, row, first, last) for cost, first, last in found]


def span_columns(features: Features) -> tuple[Ints, Flags]:
    """``offsets`` and ``max_context`` of span rows; ``DataError`` for the rows of another task."""
    if features.offsets is None or features.max_context is None:
        raise DataError(
            f"{features.dataset}: the rows of task {features.task!r} have no offsets\n"
            "  allowed: rows of a span task"
        )
    return features.offsets, features.max_context


def check_rows(features: Features, name: str, logits: Logits) -> None:
    """Raise ``DataError`` unless ``logits[r]`` is ``[lengths[r]]`` for every row."""
    if len(logits) != len(features):
        raise DataError(
            f"{features.dataset}: {name} has {len(logits)} rows, the features {len(features)}\n"
            "  allowed: one unpadded array a row, in the order of the features"
        )
    for row, (length, values) in enumerate(zip(features.lengths.tolist(), logits, strict=True)):
        if values.shape != (length,):
            raise DataError(
                f"{features.dataset}: {name}[{row}] has shape {list(values.shape)}\n"
                f"  allowed: [{length}], the unpadded row\n  fix: cut off the padding"
            )


def check_finite(
    start: Floats, end: Floats, context: Flags, row: int, example: SpanExample
) -> None:
    """Raise ``DataError`` unless the logits of position 0 and of the context are finite.

    Elsewhere no answer is looked for, so masked (infinite) logits may stand there.
    """
    used = context.copy()
    used[0] = True
    if not (np.isfinite(start[used]).all() and np.isfinite(end[used]).all()):
        raise DataError(
            f"{example.where}: question {example.id}, window {row}: a logit is not finite\n"
            "  allowed: finite numbers at position 0 and in the context\n"
            "  fix: check whether the model diverged"
        )


def check_covered(null: Floats, examples: Sequence[SpanExample]) -> None:
    """Raise ``DataError`` if a question has no window, which shows as an infinite null score."""
    bare = np.flatnonzero(np.isinf(null))
    if len(bare):
        example = examples[int(bare[0])]
        raise DataError(
            f"{example.where}: question {example.id} has no window ({len(bare)} such questions)\n"
            "  allowed: at least one row of the features for every example\n"
            "  fix: pass the examples that the features were made from"
        )
