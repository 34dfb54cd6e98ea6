"""Assignment of examples to folds, a pure function of their text."""

from __future__ import annotations

import hashlib

import numpy as np

from road_ray.data.features.types import (
    ChoiceExample,
    Example,
    Ints,
    SpanExample,
    TagExample,
    TextExample,
)
from road_ray.data.loading import Split


def fold_of(example: Example, num_folds: int) -> int:
    """Return the fold, 0 to ``num_folds - 1``, of an example, ignoring case and white space.

    All questions about one context are in one fold, since a model that has seen one of them has
    seen the text.
    """
    text = " ".join(_text(example).casefold().split())
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") % num_folds


def row_folds(split: Split, num_folds: int) -> Ints:
    """Return the fold of every row of a split, ``[rows]``."""
    folds = np.array([fold_of(example, num_folds) for example in split.examples], dtype=np.int32)
    taken: Ints = folds[split.features.example]
    return taken


def _text(example: Example) -> str:
    match example:
        case TextExample():
            return "\n".join(sorted(example.texts, key=str.casefold))  # the same in either order
        case SpanExample():
            return example.context
        case TagExample():
            return " ".join(example.words)
        case ChoiceExample():
            return example.question
