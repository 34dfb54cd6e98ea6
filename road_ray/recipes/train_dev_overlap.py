"""Dev examples that are in the train split too: found by their texts, and warned of."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from road_ray.data.features.examples_and_features import (
    ChoiceExample,
    Example,
    SpanExample,
    TagExample,
    TextExample,
)
from road_ray.data.load_split import Split

_log = logging.getLogger(__name__)


def warn_of_overlap(train: Split, dev: Split) -> None:
    """Warn of dev examples that are in the train split too."""
    shared = shared_examples(train.examples, dev.examples)
    if shared:
        dev_example, train_example = shared[0]
        _log.warning(
            "%s: %d of %d dev examples are in the train split of %s too; their scores flatter\n"
            "  the first: %s, which is %s",
            dev.dataset.name, len(shared), len(dev.examples), train.dataset.name,
            dev_example.where, train_example.where,
        )  # fmt: skip


def shared_examples(
    train: Sequence[Example], dev: Sequence[Example]
) -> list[tuple[Example, Example]]:
    """Return pairs of dev and training examples that have the same texts."""
    seen = {_texts(example): example for example in train}
    return [(example, seen[_texts(example)]) for example in dev if _texts(example) in seen]


def count_shared(train: Sequence[Example], dev: Sequence[Example]) -> int:
    """Return the number of dev examples that have the texts of a training example."""
    return len(shared_examples(train, dev))


def _texts(example: Example) -> tuple[str, ...]:
    match example:
        case TextExample():
            return example.texts
        case SpanExample():
            return (example.question, example.context)
        case TagExample():
            return example.words
        case ChoiceExample():
            return (example.question, *example.choices)
