"""Tags of words from logits of tokens, and entity scores by seqeval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import Features, TagExample
from road_ray.errors import DataError

OUTSIDE = "O"


def predicted_tags(
    features: Features,
    examples: Sequence[TagExample],
    labels: Sequence[str],
    logits: Sequence[NDArray[np.float32]],
) -> list[list[str]]:
    """Return the likeliest tag of every word of every sentence, read at its first sub-token."""
    if features.words is None:
        raise DataError(f"{features.dataset}: the rows of task {features.task!r} have no words")
    tags = [[OUTSIDE] * len(example.words) for example in examples]
    for row, values in enumerate(logits):
        words = features.words[features.bounds[row] : features.bounds[row + 1]]
        best = values.argmax(-1)
        for place in np.flatnonzero(words >= 0):
            tags[features.example[row]][words[place]] = labels[best[place]]
    return tags


def entity_scores(
    predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return ``entity_f1``, ``entity_precision`` and ``entity_recall`` (whole entities,
    micro-averaged) and ``accuracy`` (words), as percentages.

    An entity that starts with ``I-`` counts as started. Source: conlleval, as implemented in
    seqeval.
    """
    from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score

    predictions, truth = [list(tags) for tags in predicted], [list(tags) for tags in gold]
    scores = {"precision": precision_score, "recall": recall_score, "f1": f1_score}
    result = {
        f"entity_{name}": 100.0 * float(score(truth, predictions, zero_division=0))
        for name, score in scores.items()
    }
    return result | {"accuracy": 100.0 * float(accuracy_score(truth, predictions))}
