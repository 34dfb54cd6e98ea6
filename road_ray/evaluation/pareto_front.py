"""The Pareto front of several scores."""

from __future__ import annotations

from collections.abc import Sequence


def pareto_front(scores: Sequence[tuple[float, ...]]) -> list[int]:
    """Return the indices of the scores (larger is better) that no other score dominates; with one
    metric, the first of the best.
    """
    if scores and len(scores[0]) == 1:
        return [max(range(len(scores)), key=lambda number: scores[number])]

    def dominates(other: tuple[float, ...], candidate: tuple[float, ...]) -> bool:
        return other != candidate and all(a >= b for a, b in zip(other, candidate, strict=True))

    return [
        number
        for number, candidate in enumerate(scores)
        if not any(dominates(other, candidate) for other in scores)
    ]
