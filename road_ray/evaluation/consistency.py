"""Consistency of a model between a question and its paraphrases, by pairs of predictions."""

from __future__ import annotations

from collections.abc import Mapping

from road_ray.errors import DataError
from road_ray.evaluation.squad import token_f1

# Suffixes that paraphrased and adversarial sets append to the id of the original question.
_MARKS = ("_paraphrase", "-para", "-high-conf-turk", "-turk")


def origin(name: str) -> str:
    """Return the id of the original question: ``5726-high-conf-turk0`` comes from ``5726``."""
    for mark in _MARKS:
        name = name.partition(mark)[0]
    return name


def consistency(original: Mapping[str, str], changed: Mapping[str, str]) -> dict[str, float]:
    """Return ``same`` (equal predictions) and ``overlap`` (mean token F1) as percentages, and the
    number of ``pairs``. Predictions of both sets are matched by the ``origin`` of their ids.

    A question with several variants counts once for each. Raises ``DataError`` without any pair.
    """
    first = {origin(name): text for name, text in original.items()}
    pairs = [(first[origin(name)], text) for name, text in changed.items() if origin(name) in first]
    if not pairs:
        raise DataError(
            f"consistency: none of {len(changed)} ids comes from one of the {len(original)} "
            f"originals, such as {next(iter(changed), '')!r} and {next(iter(original), '')!r}"
        )
    return {
        "same": 100.0 * sum(a == b for a, b in pairs) / len(pairs),
        "overlap": 100.0 * sum(token_f1(a, b) for a, b in pairs) / len(pairs),
        "pairs": float(len(pairs)),
    }
