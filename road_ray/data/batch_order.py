"""Order of rows: which rows each batch of an epoch has, a pure function of the seed; its width."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.types import Longs

_BATCHES_SORTED_TOGETHER = 32  # more saves padding but makes neighbouring batches more alike


def epoch_order(
    lengths: Longs, batch_size: int, *, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """Return the row numbers of each batch of an epoch: every row once, batch sizes within one."""
    # The second word tells the uses of one seed apart: 0 order, 1 noise, 2 draws, 3 dropout,
    # 4 rows kept, 5 phases.
    rng = np.random.default_rng((seed, 0, epoch))
    rows = rng.permutation(len(lengths))
    count = max(1, -(-len(rows) // batch_size))
    together = max(1, min(count, _BATCHES_SORTED_TOGETHER))
    batches: list[NDArray[np.int64]] = []
    sizes = [len(part) for part in np.array_split(rows, count)]
    start = 0
    for first in range(0, count, together):
        group = sizes[first : first + together]
        chunk = rows[start : start + sum(group)]
        start += sum(group)
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        cut = np.split(chunk, np.cumsum(group)[:-1])
        batches.extend(cut[index] for index in rng.permutation(len(cut)))
    return batches


def token_budget_order(
    lengths: Longs, most_tokens: int, batch_size: int, *, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """Return the row numbers of each batch of an epoch, every row once.

    A batch has rows of similar length, at most ``most_tokens`` with padding and at most
    ``batch_size`` rows. All epochs have equally many batches.

    Source: fairseq, data_utils.batch_by_size.
    """
    rng = np.random.default_rng((seed, 0, epoch))
    rows = rng.permutation(len(lengths))
    rows = rows[np.argsort(lengths[rows], kind="stable")]
    cuts = token_budget_cuts(np.sort(lengths), most_tokens, batch_size)
    batches = np.split(rows, cuts)
    return [batches[index] for index in rng.permutation(len(batches))]


def token_budget_cuts(ordered: Longs, most_tokens: int, batch_size: int) -> list[int]:
    """Return where batches of rows of rising length begin, except the first."""
    widths = [padded_width(int(length)) for length in ordered]
    starts = [0]
    while (start := starts[-1]) < len(widths):
        room = range(start, min(start + batch_size, len(widths)))
        # Rows only get longer, so the tokens of a batch grow with every row.
        fits = bisect_right(room, most_tokens, key=lambda end: (end - start + 1) * widths[end])
        starts.append(start + max(1, fits))
    cuts = starts[1:-1]
    if cuts:  # the longest rows may be left alone: they get some of the batch before them
        before = cuts[-2] if len(cuts) > 1 else 0
        rest, room_there = len(widths) - cuts[-1], max(1, most_tokens // widths[-1])
        even = min((len(widths) - before) // 2, room_there)
        cuts[-1] -= max(0, even - rest)
    return cuts


def padded_width(longest: int) -> int:
    """Return the width of a batch: the next multiple of 8, of 4 up to 64 tokens, of 2 up to 32.

    Matrix kernels are efficient for multiples of 8. Short rows are not worth them: a batch of
    sentences of 10 tokens would be a fifth padding.
    """
    multiple = 8 if longest > 64 else 4 if longest > 32 else 2
    return -(-longest // multiple) * multiple
