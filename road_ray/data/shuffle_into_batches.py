"""Order of rows: the rows of each batch of an epoch, a pure function of the seed, and its width."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from road_ray.data.examples import Longs

_BATCHES_SORTED_TOGETHER = 32  # more saves padding but makes neighbouring batches more similar


def epoch_order(
    lengths: Longs, batch_size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return the row numbers of each batch of an epoch: every row once, batch sizes within one."""
    rows = rng.permutation(len(lengths))
    count = max(1, -(-len(rows) // batch_size))
    group_size = max(1, min(count, _BATCHES_SORTED_TOGETHER))
    batches: list[NDArray[np.int64]] = []
    sizes = [len(part) for part in np.array_split(rows, count)]
    start = 0
    for first in range(0, count, group_size):
        group = sizes[first : first + group_size]
        chunk = rows[start : start + sum(group)]
        start += sum(group)
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        cut = np.split(chunk, np.cumsum(group)[:-1])
        batches.extend(cut[index] for index in rng.permutation(len(cut)))
    return batches


@dataclass(frozen=True)
class Windows:
    """Rows of several shards that are shuffled together, so that few shards are read at a time."""

    starts: Longs  # [shards + 1] number of the first row of each shard
    rows: int  # of a window
    expect: Callable[[Sequence[int]], None] | None = None
    """Called with the numbers of the shards that are read from now on."""


class RowOrder:
    """Rows of each batch of a training, epoch after epoch.

    Without ``windows`` an epoch is that of ``epoch_order``, or of ``token_budget_order`` where
    batches have at most ``most_tokens``. Else the shards are in a random order, another one in each
    epoch, and a window is a fixed number of consecutive rows in that order, the last the rest. Its
    rows are shuffled and batched as by ``epoch_order``.
    """

    def __init__(
        self,
        lengths: Longs,
        batch_size: int,
        *,
        seed: int,
        most_tokens: int | None = None,
        windows: Windows | None = None,
    ) -> None:
        self.lengths, self.batch_size, self.seed = lengths, batch_size, seed
        self.most_tokens, self.windows = most_tokens, windows
        self._batches = lru_cache(maxsize=2)(self._batches_of)
        if windows is None:
            self.count = self.batches_per_window = 1  # the epoch
            sizes = [len(rows) for rows in self._batches(0, 0)]
            self.batches_per_epoch, self.smallest = len(sizes), min(sizes)
            return
        self.total = int(windows.starts[-1])
        self.batches_per_window = max(1, windows.rows // batch_size)
        self.rows_per_window = self.batches_per_window * batch_size
        self.count = max(1, self.total // self.rows_per_window)
        last = self.total - (self.count - 1) * self.rows_per_window
        in_last = -(-last // batch_size)
        self.batches_per_epoch = (self.count - 1) * self.batches_per_window + in_last
        self.smallest = last // in_last

    def row_numbers(self, number: int) -> NDArray[np.int64]:
        """Return the rows of batch ``number``, counted over all epochs."""
        epoch, position = divmod(number, self.batches_per_epoch)
        window = min(position // self.batches_per_window, self.count - 1)
        return self._batches(epoch, window)[position - window * self.batches_per_window]

    def _batches_of(self, epoch: int, window: int) -> list[NDArray[np.int64]]:
        lengths, size = self.lengths, self.batch_size
        if self.windows is None:
            # The second word separates the uses of one seed: 0 order, 1 noise, 2 draws, 3 dropout,
            # 4 selected rows, 5 phases, 6 order of shards, 7 order within a window of shards.
            rng = np.random.default_rng((self.seed, 0, epoch))
            if self.most_tokens is None:
                return epoch_order(lengths, size, rng)
            return token_budget_order(lengths, self.most_tokens, size, rng)
        starts = self.windows.starts
        parts = self._parts(starts, epoch, window)
        if self.windows.expect is not None:
            following = (epoch, window + 1) if window + 1 < self.count else (epoch + 1, 0)
            soon = [shard for shard, _, _ in (*parts, *self._parts(starts, *following))]
            self.windows.expect(list(dict.fromkeys(soon)))
        rows = np.concatenate([starts[shard] + np.arange(a, b) for shard, a, b in parts])
        rng = np.random.default_rng((self.seed, 7, epoch, window))
        return [rows[inner] for inner in epoch_order(lengths[rows], size, rng)]

    def _parts(self, starts: Longs, epoch: int, window: int) -> list[tuple[int, int, int]]:
        """Return the shards of a window, each with the range of its rows in the window."""
        first = window * self.rows_per_window
        last = self.total if window + 1 == self.count else first + self.rows_per_window
        order = np.random.default_rng((self.seed, 6, epoch)).permutation(len(starts) - 1)
        edges = np.cumsum([0, *np.diff(starts)[order]])
        parts = []
        for place in range(int(np.searchsorted(edges, first, side="right")) - 1, len(order)):
            if edges[place] >= last:
                break
            begin, end = max(first, edges[place]), min(last, edges[place + 1])
            parts.append((int(order[place]), int(begin - edges[place]), int(end - edges[place])))
        return parts


def token_budget_order(
    lengths: Longs, most_tokens: int, batch_size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return the row numbers of each batch of an epoch, every row once.

    A batch has rows of similar length, at most ``most_tokens`` with padding and at most
    ``batch_size`` rows. All epochs have equally many batches.

    Source: fairseq, data_utils.batch_by_size.
    """
    rows = rng.permutation(len(lengths))
    rows = rows[np.argsort(lengths[rows], kind="stable")]
    cuts = token_budget_cuts(np.sort(lengths), most_tokens, batch_size)
    batches = np.split(rows, cuts)
    return [batches[index] for index in rng.permutation(len(batches))]


def token_budget_cuts(ordered: Longs, most_tokens: int, batch_size: int) -> list[int]:
    """Return the starts of the batches of rows of rising length, without the first."""
    widths = [padded_width(int(length)) for length in ordered]
    starts = [0]
    while (start := starts[-1]) < len(widths):
        ends = range(start, min(start + batch_size, len(widths)))
        # Rows only get longer, so the tokens of a batch grow with every row.
        fits = bisect_right(ends, most_tokens, key=lambda end: (end - start + 1) * widths[end])
        starts.append(start + max(1, fits))
    cuts = starts[1:-1]
    if cuts:  # the last batch may have few rows: it gets some of the batch before it
        before = cuts[-2] if len(cuts) > 1 else 0
        rest, most_rows = len(widths) - cuts[-1], max(1, most_tokens // widths[-1])
        even = min((len(widths) - before) // 2, most_rows)
        cuts[-1] -= max(0, even - rest)
    return cuts


def padded_width(longest: int, most: int | None = None) -> int:
    """Return the width of a batch: the next multiple of 8, of 4 up to 64 tokens, of 2 up to 32, but
    not above ``most``: a model has no positions beyond its longest row.

    Matrix kernels are efficient for multiples of 8. Short rows are not worth them: a batch of
    sentences of 10 tokens would be a fifth padding.
    """
    multiple = 8 if longest > 64 else 4 if longest > 32 else 2
    width = -(-longest // multiple) * multiple
    return width if most is None else min(width, most)
