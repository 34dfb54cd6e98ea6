"""Join sentences as rows of one or two segments, as in ELECTRA's pre-training."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

TokenIds: TypeAlias = "array[int]"  # of 32 bits

# Shares of rows with one segment, and of rows that aim at a random shorter length.
# Source: google electra, build_pretraining_dataset.py.
_SINGLE_SEGMENT_FRACTION = 0.1
_SHORT_FRACTION = 0.05


def two_segments(
    sentences: Iterable[Sequence[int]],
    *,
    max_length_tokens: int,
    cls_id: int,
    sep_id: int,
    rng: np.random.Generator,
) -> Iterator[tuple[TokenIds, int]]:
    """Yield rows ``([CLS] s1 [SEP] (s2 [SEP]), length of segment 0)`` from the sentences of one
    document.

    Segments are contiguous text; the tail of the document makes a last, shorter row. Source: google
    electra, build_pretraining_dataset.py (science: section 2.4).
    """
    waiting: list[Sequence[int]] = []
    length = 0
    target = max_length_tokens
    for sentence in sentences:
        if not sentence:
            continue
        waiting.append(sentence)
        length += len(sentence)
        if length >= target:
            yield _row(waiting, target, max_length_tokens, cls_id, sep_id, rng)
            waiting, length = [], 0
            short = rng.random() < _SHORT_FRACTION
            target = int(rng.integers(5, max_length_tokens)) if short else max_length_tokens
    if waiting:
        yield _row(waiting, target, max_length_tokens, cls_id, sep_id, rng)


def _straddles(first: TokenIds, first_target: int, rng: np.random.Generator) -> bool:
    return len(first) < first_target and rng.random() < 0.5


def _row(
    sentences: list[Sequence[int]],
    target: int,
    max_length_tokens: int,
    cls_id: int,
    sep_id: int,
    rng: np.random.Generator,
) -> tuple[TokenIds, int]:
    single = rng.random() < _SINGLE_SEGMENT_FRACTION
    first_target = 100_000 if single else (target - 3) // 2
    first, second = array("i"), array("i")
    for sentence in sentences:
        fits = len(first) + len(sentence) < first_target
        # The released code puts a later sentence that fits back into the first segment; then
        # the text would not be contiguous.
        if not first or (not second and (fits or _straddles(first, first_target, rng))):
            first.extend(sentence)
        else:
            second.extend(sentence)
    first = first[: max_length_tokens - 2]
    second = second[: max(0, max_length_tokens - len(first) - 3)]
    row = array("i", [cls_id]) + first
    row.append(sep_id)
    if second:
        row += second
        row.append(sep_id)
    return row, len(first) + 2
