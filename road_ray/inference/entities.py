"""Entities of tagged sentences: tags of words grouped, with offsets in the text and scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from road_ray.data.features.examples_and_features import Features, TagExample
from road_ray.data.task_and_dataset import Tag
from road_ray.evaluation.metrics import OUTSIDE, predicted_tags

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Sentence(TagExample):
    """Words to tag, and the text to which the character offsets refer."""

    text: str


def entities(
    kind: Tag, examples: Sequence[Any], features: Features, logits: Sequence[Floats]
) -> list[dict[str, Any]]:
    """Return the tags of each sentence's words, and its entities with character offsets."""
    assert features.words is not None
    tags = predicted_tags(features, examples, kind.labels, logits)
    scores = [[0.0] * len(example.words) for example in examples]  # of the likeliest tags
    for row, values in enumerate(logits):
        words = features.words[features.bounds[row] : features.bounds[row + 1]]
        for place in np.flatnonzero(words >= 0):
            score = float(softmax(values[place].astype(np.float64)).max())
            scores[features.example[row]][words[place]] = score
    return [
        {
            "tags": sentence_tags,
            "words": list(example.words),
            "entities": grouped(example, sentence_tags, sentence_scores),
        }
        for example, sentence_tags, sentence_scores in zip(examples, tags, scores, strict=True)
    ]


def grouped(
    example: Sentence, tags: Sequence[str], scores: Sequence[float]
) -> list[dict[str, Any]]:
    """Return the entities of IOB2 tags; an ``I-`` after another type begins an entity. Tags
    without a prefix are entities of one word each.
    """
    groups: list[dict[str, Any]] = []
    open_type: str | None = None
    end = 0
    for word, tag, score in zip(example.words, tags, scores, strict=True):
        start = example.text.index(word, end)
        end = start + len(word)
        if tag == OUTSIDE:
            open_type = None
            continue
        prefix, _, name = tag.partition("-") if tag[:2] in ("B-", "I-") else ("B", "", tag)
        if prefix == "I" and name == open_type:
            groups[-1]["end"] = end
            groups[-1]["scores"].append(score)
        else:
            groups.append({"type": name, "start": start, "end": end, "scores": [score]})
        open_type = name
    for entity in groups:
        entity["score"] = float(np.mean(entity.pop("scores")))
        entity["text"] = example.text[entity["start"] : entity["end"]]
    return groups
