"""Dev examples that are in the train split too: found by their texts, and warned of."""

from __future__ import annotations

import logging

from road_ray.data.features.examples_and_features import (
    ChoiceExample,
    Example,
    SpanExample,
    TagExample,
    TextExample,
)
from road_ray.data.load_split import Split

_log = logging.getLogger(__name__)


def count_overlap(train: Split, dev: Split) -> int:
    """Return the number of dev examples that have the texts of a training example; warn of them."""
    seen = {_texts(example): example for example in train.examples}
    shared = [example for example in dev.examples if _texts(example) in seen]
    if shared:
        _log.warning(
            "%s: %d of %d dev examples are in the train split of %s too; their scores flatter\n"
            "  the first: %s, which is %s",
            dev.dataset.name, len(shared), len(dev.examples), train.dataset.name,
            shared[0].where, seen[_texts(shared[0])].where,
        )  # fmt: skip
    return len(shared)


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
