"""Assignment of examples to folds, a pure function of their text."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from road_ray.data.features.examples_and_features import Example, Ints
from road_ray.errors import DataError

if TYPE_CHECKING:  # loading imports this module
    from road_ray.data.load_split import Split


def fold_of(example: Example, num_folds: int) -> int:
    """Return the fold, 0 to ``num_folds - 1``, of an example, ignoring case and white space.

    All questions about one context are in one fold, since a model that has seen one of them has
    seen the text.
    """
    return _number_of(example) % num_folds


def row_folds(split: Split, num_folds: int) -> Ints:
    """Return the fold of every row of a split, ``[rows]``."""
    folds = np.array([fold_of(example, num_folds) for example in split.examples], dtype=np.int32)
    taken: Ints = folds[split.features.example]
    return taken


def held_out(examples: Sequence[Example], fraction: float, name: str) -> list[bool]:
    """Return for each example True if it is in the dev split of ``fraction`` of all.

    Examples with one text (for spans: one context) stay together. Raises ``DataError`` if all have
    the same text.
    """
    groups: dict[int, list[int]] = {}
    for index, example in enumerate(examples):
        groups.setdefault(_number_of(example), []).append(index)
    if len(groups) < 2:
        raise DataError(
            f"data.sets.{name}: dev_fraction = {fraction}: all {len(examples)} rows have one text\n"
            "  fix: add rows with other texts, or name a file as dev"
        )
    held = [False] * len(examples)
    remaining = max(1, round(fraction * len(examples)))
    for group in sorted(groups)[:-1]:
        if remaining <= 0:
            break
        remaining -= len(groups[group])
        for index in groups[group]:
            held[index] = True
    return held


def _number_of(example: Example) -> int:
    """Return a number of 64 bits that follows from the text, ignoring case and white space."""
    text = " ".join(example.fold_text().casefold().split())
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
