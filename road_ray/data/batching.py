"""Batches of rows; the rows of batch ``k`` are a pure function of the seed.

No state has to be stored to resume. Rows of similar length share a batch, a batch is padded to its
longest row, and every worker takes its share of the rows of the same global batch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.examples import FURTHER, UNKNOWN, Features, Longs
from road_ray.errors import ConfigError, DataError

if TYPE_CHECKING:
    from road_ray.data.corpus.memory_mapped_corpus import Corpus

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class Batch(TypedDict, total=False):
    """Tensors and facts of ``B`` rows. Each stage adds keys; only the inputs are always present.

    The shape of the inputs is ``[B, L]``, or ``[B, N, L]`` for N choices per row. A batch may have
    further keys ``labels/<task>``, one per additional head: tasks have any name, so no class can
    list them; ``further_labels`` reads them.
    """

    input_ids: Tensor
    """Token ids."""
    attention_mask: Tensor
    """1 for a token, 0 for padding."""
    token_type_ids: Tensor
    """Token types as the tokenizer gives them; absent if it gives none."""
    second_text: Tensor
    """1 for tokens of the second text and the special tokens after it ``[B, L]``; fine-tuning only.
    """
    labels: Tensor
    """Classes or scores ``[B]``, tags ``[B, L]``; -100 is unknown and has no loss."""
    start_positions: Tensor
    """First token of the answer ``[B]``; 0 is no answer, -100 unknown."""
    end_positions: Tensor
    """Last token of the answer ``[B]``, as ``start_positions``."""
    impossible: Tensor
    """1 if a question has no answer in its text ``[B]``; joint spans only."""
    noise: Tensor
    """Uniform numbers ``[K, B, L]`` that masking and sampling read; pre-training only."""
    rows: Tensor
    """Numbers of the rows in their data set ``[B]``."""
    unpadded: bool
    """True if no row has padding, so that attention needs no mask; see ``Objective.prepare``."""
    chosen: Tensor
    """Flat positions to predict ``[N]``, of ``[B * L]``, ascending; pre-training only."""
    real: Tensor
    """Flat positions without padding ``[T]``, ascending; of objectives that predict all tokens."""
    task: str
    """Name of the task, whose head answers."""
    dataset: str
    """Name of the data set, which names the loss in the journal."""
    fraction: float
    """Fraction of the training that is done, from 0 to below 1; distillation only."""
    stats: dict[str, float]
    """Sums for the journal: teacher waits, examples per data set."""
    soft_logits: Tensor
    """The teachers' weighted logits ``[B, ..., C]``."""
    kd_keep: Tensor
    """True where some teacher counts ``[B, ...]``; elsewhere nothing is distilled."""
    teacher_logits: Tensor
    """Logits of each teacher ``[M, B, ..., C]``; with ``distillation.average_loss`` only."""
    teacher_weights: Tensor
    """Weights of each teacher ``[M, B, ...]``, beside ``teacher_logits``."""


_BATCHES_SORTED_TOGETHER = 32  # more saves padding but makes neighbouring batches more similar
NOISE_CHANNELS = 3  # which positions are chosen, which of them are masked, what is sampled there


Rows: TypeAlias = "Features | Corpus"


def pad(rows: Rows, numbers: NDArray[np.int64], *, pad_id: int, width: int | None = None) -> Batch:
    """Return the given rows, padded to the longest or to ``width``, but never beyond the limit that
    the rows were cut to.

    ``input_ids``, ``attention_mask`` and the segments, if the tokenizer gives any: ``[B, L]`` each,
    or ``[B, N, L]`` where every question has N choices.
    """
    choices = rows.choices
    shape: tuple[int, ...] = (len(numbers), -1)
    if choices > 1:
        shape = (len(numbers), choices, -1)
        numbers = (numbers[:, None] * choices + np.arange(choices)).ravel()
    taken = [rows.row(int(number)) for number in numbers]
    longest = width or padded_width(max(len(row) for row in taken), rows.max_length_tokens)
    ids = np.full((len(taken), longest), pad_id, dtype=np.int64)
    for index, row in enumerate(taken):
        ids[index, : len(row)] = row
    lengths = np.array([len(row) for row in taken])[:, None]
    positions = np.arange(longest)[None, :]
    real = positions < lengths
    second = (positions >= rows.first_segment[numbers][:, None]) & real
    segments: NDArray[Any] | None
    batch: Batch = {
        "input_ids": torch.from_numpy(ids).view(shape),
        "attention_mask": torch.from_numpy(real.astype(np.int64)).view(shape),
    }
    if isinstance(rows, Features):
        segments = rows.segments
        if segments is not None:
            places = np.minimum(rows.bounds[numbers][:, None] + positions, len(segments) - 1)
            segments = np.where(real, segments[places], 0)
        if choices == 1 and rows.words is None:
            batch["second_text"] = torch.from_numpy(second.astype(np.int64))
    else:
        segments = second if rows.has_segments else None
    if segments is not None:
        batch["token_type_ids"] = torch.from_numpy(segments.astype(np.int64)).view(shape)
    return batch


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


def token_budget_cuts(ordered: Longs, most_tokens: int, batch_size: int) -> list[int]:
    """Return the starts of the batches of rows of rising length, without the first. A batch has at
    most ``most_tokens`` with padding and at most ``batch_size`` rows.

    Source: fairseq, data_utils.batch_by_size.
    """
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
    """Return the width of a batch: its longest row, above 64 tokens the next multiple of 8, but not
    above ``most``: a model has no positions beyond its longest row.

    Kernels of GPUs are efficient for multiples of 8, which cost long rows little; those of CPUs
    take as long as there are positions (docs/results/scaling.md).
    """
    width = longest if longest <= 64 else -(-longest // 8) * 8
    return width if most is None else min(width, most)


class BatchTotals(NamedTuple):
    """Sizes of several batches together, over all workers."""

    rows: int
    tokens: int  # without padding
    positions: int  # with padding


class BatchStream:
    """Endless batches of one data set: ``stream[k]`` is batch ``k``, of which worker ``rank`` of
    ``size`` takes its share. ``batch_size`` is global, in examples.

    Without ``window_rows`` an epoch is that of ``epoch_order``. Else the shards are in a random
    order, another one in each epoch, and a window is a fixed number of consecutive rows in that
    order, the last the rest. Its rows are shuffled and batched as by ``epoch_order``.

    With ``noise_channels`` a batch has uniform numbers ``[noise_channels, B, L]`` that are drawn
    for the global batch, so masking does not depend on the number of workers or on a resume.
    """

    def __init__(
        self,
        rows: Rows,
        batch_size: int,
        seed: int,
        *,
        pad_id: int,
        rank: int = 0,
        size: int = 1,
        noise_channels: int = 0,
    ) -> None:
        self.rows, self.batch_size, self.seed, self.pad_id = rows, batch_size, seed, pad_id
        self._corpus = None if isinstance(rows, Features) or not rows.window_rows else rows
        self.share = slice(rank, None, size)
        self.name, self.noise_channels = rows.dataset, noise_channels
        if len(rows) == 0:
            raise DataError(f"data set {self.name}: 0 usable rows")
        self._lengths = rows.lengths
        self._batches = lru_cache(maxsize=2)(self._batches_of)
        # Windows have whole batches, the last one the rest; without shuffled shards there is one.
        window_rows = len(rows) if self._corpus is None else self._corpus.window_rows
        self.batches_per_window = max(1, window_rows // batch_size)
        self.rows_per_window = self.batches_per_window * batch_size
        self.num_windows = max(1, len(rows) // self.rows_per_window)
        last = len(rows) - (self.num_windows - 1) * self.rows_per_window
        in_last = -(-last // batch_size)
        self.batches_per_epoch = (self.num_windows - 1) * self.batches_per_window + in_last
        if (smallest := last // in_last) < size:
            raise ConfigError(
                f"batch_size = {batch_size}: the smallest batch of {self.name} "
                f"({len(rows)} rows) has {smallest}, fewer than the {size} workers\n"
                "  allowed: at least one example a worker\n"
                "  fix: raise batch_size, or lower workers"
            )

    def row_numbers(self, number: int) -> NDArray[np.int64]:
        """Return the rows of global batch ``number``, over all workers and epochs."""
        epoch, position = divmod(number, self.batches_per_epoch)
        window = min(position // self.batches_per_window, self.num_windows - 1)
        return self._batches(epoch, window)[position - window * self.batches_per_window]

    def _batches_of(self, epoch: int, window: int) -> list[NDArray[np.int64]]:
        lengths, corpus, seed, size = self._lengths, self._corpus, self.seed, self.batch_size
        if corpus is None:
            # The second word separates the uses of one seed: 0 order, 1 noise, 2 draws, 3 dropout,
            # 4 selected rows, 6 order of shards, 7 order within a window of shards.
            return epoch_order(lengths, size, np.random.default_rng((seed, 0, epoch)))
        rows, shards = self._rows_of(corpus.starts, epoch, window)
        if corpus.expect is not None:
            following = (epoch, window + 1) if window + 1 < self.num_windows else (epoch + 1, 0)
            soon = [*shards.tolist(), *self._rows_of(corpus.starts, *following)[1].tolist()]
            corpus.expect(list(dict.fromkeys(soon)))
        rng = np.random.default_rng((seed, 7, epoch, window))
        return [rows[inner] for inner in epoch_order(lengths[rows], size, rng)]

    def _rows_of(
        self, starts: Longs, epoch: int, window: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of a window in the order of its shards, and these shards."""
        first = window * self.rows_per_window
        is_last = window + 1 == self.num_windows
        places = np.arange(first, len(self.rows) if is_last else first + self.rows_per_window)
        rng = np.random.default_rng((self.seed, 6, epoch))
        order = rng.permutation(len(starts) - 1)
        edges = np.cumsum([0, *np.diff(starts)[order]])
        of = np.searchsorted(edges, places, side="right") - 1
        return starts[order[of]] + places - edges[of], order[of[0] : of[-1] + 1]

    def totals(self, batches: int) -> BatchTotals:
        """Return the sizes of the first global batches, computed from row lengths. Over several
        epochs, whose padding differs a little, positions are those of the first epoch. Of shuffled
        windows, whose lengths are not all available, sizes are estimated from the first batch.
        """
        epochs, rest = divmod(max(batches, 0), self.batches_per_epoch)
        if self._corpus is not None:
            rows, tokens, positions = self._sizes(range(1)).tolist()
            share = max(batches, 0) / self.batches_per_epoch * len(self.rows) / rows
            return BatchTotals(*(round(share * size) for size in (rows, tokens, positions)))
        total = self._sizes(range(batches - rest, batches))
        if epochs:
            total += epochs * self._sizes(range(self.batches_per_epoch))
        return BatchTotals(*total.tolist())

    def _sizes(self, numbers: range) -> NDArray[np.int64]:
        """Return rows, tokens and positions of these batches together."""
        choices, tokens = self.rows.choices, self._lengths
        if isinstance(self.rows, Features):
            tokens = np.diff(self.rows.bounds).reshape(-1, choices).sum(1)
        total = np.zeros(3, np.int64)
        for rows in map(self.row_numbers, numbers):
            width = padded_width(int(self._lengths[rows].max()), self.rows.max_length_tokens)
            total += (len(rows), int(tokens[rows].sum()), len(rows) * width * choices)
        return total

    def __getitem__(self, number: int) -> Batch:
        numbers = self.row_numbers(number)
        width = padded_width(int(self._lengths[numbers].max()), self.rows.max_length_tokens)
        own_rows = numbers[self.share]
        batch = pad(self.rows, own_rows, pad_id=self.pad_id, width=width)
        batch |= {"task": self.rows.task, "dataset": self.name}
        batch["rows"] = torch.from_numpy(own_rows.copy())
        if self.noise_channels:
            shape = self.noise_channels, len(numbers), width
            drawn = noise_of_share((self.seed, 1, number), shape, self.share)
            batch["noise"] = torch.from_numpy(drawn)
        if not isinstance(self.rows, Features):
            return batch
        gold, bounds = self.rows.gold, self.rows.bounds
        if self.rows.words is None:
            parts = {name: torch.from_numpy(values[own_rows]) for name, values in gold.items()}
            return batch | cast("Batch", parts)
        tags = np.full((len(own_rows), width), UNKNOWN, np.int64)
        for index, row in enumerate(own_rows):
            labels = gold["labels"][bounds[row] : bounds[row + 1]]
            tags[index, : len(labels)] = labels
        return batch | {"labels": torch.from_numpy(tags)}

    def since(self, number: int) -> Iterator[Batch]:
        """Yield batches ``number``, ``number + 1``, ... without end."""
        while True:
            yield self[number]
            number += 1


def noise_of_share(
    seeds: tuple[int, ...], shape: tuple[int, int, int], share: slice
) -> NDArray[np.float32]:
    """Return uniform numbers ``[K, B, L]`` for the rows ``share`` of a global batch: those that one
    worker draws for all rows, of which the other workers' are skipped.
    """
    rng, (channels, rows, width) = np.random.default_rng(seeds), shape
    if share.step == 1:
        return rng.random(shape, dtype=np.float32)
    own_rows = range(*share.indices(rows))
    drawn = np.empty((channels, len(own_rows), width), np.float32)
    done = 0  # draws of the generator, which gives two numbers each
    for channel in range(channels):
        for place, row in enumerate(own_rows):
            first, odd = divmod((channel * rows + row) * width, 2)
            rng.bit_generator.advance(first - done)  # type: ignore[attr-defined]  # of PCG64
            drawn[channel, place] = rng.random(odd + width, dtype=np.float32)[odd:]
            done = first + (odd + width + 1) // 2
    return drawn


def further_labels(batch: Batch) -> dict[str, Tensor]:
    """Return the labels of additional heads by task, of the keys ``labels/<task>``."""
    tensors = cast("Mapping[str, Tensor]", batch)
    return {
        name.removeprefix(FURTHER): value
        for name, value in tensors.items()
        if name.startswith(FURTHER)
    }


def encoder_inputs(batch: Mapping[str, Any], names: Sequence[str] = INPUTS) -> dict[str, Tensor]:
    """Return the inputs of an encoder, ``[B, L]`` each, or ``[B * N, L]`` for choices. The mask is
    left out if no row has padding, because attention has faster kernels without it.
    """
    present = [name for name in names if batch.get(name) is not None]
    if batch.get("unpadded"):
        present = [name for name in present if name != "attention_mask"]
    return {name: batch[name].flatten(0, -2) for name in present}


def allowed_positions(batch: Mapping[str, object]) -> Tensor:
    """Return a mask of the positions where an answer may start or end, ``[B, L]`` bool: the second
    text, and position 0 for no answer. In a row without a second text, all tokens are allowed.
    """
    attention, segments = batch.get("attention_mask"), second_text(batch)
    if attention is None:
        attention = torch.ones_like(torch.as_tensor(batch["input_ids"]))
    allowed = torch.as_tensor(attention).bool().clone()
    if segments is not None:
        second = segments == 1
        allowed &= second | ~second.any(1, keepdim=True)
    allowed[:, 0] = True
    return allowed


def second_text(batch: Mapping[str, Any]) -> Tensor | None:
    """Return 1 for tokens of the second text ``[B, L]``, which a batch of another program has in
    segment 1 alone; None where neither says it, as for models without token types.
    """
    marks = batch.get("second_text", batch.get("token_type_ids"))
    return None if marks is None else torch.as_tensor(marks)


def to_device(batch: Mapping[str, object], device: torch.device) -> Batch:
    """Return the batch with its tensors on ``device``; the host does not wait for the copy."""
    moved: dict[str, Any] = dict(batch)
    for name, value in batch.items():
        if isinstance(value, Tensor):
            if device.type == "cuda" and value.device.type == "cpu":
                value = value.pin_memory()  # from other memory the copy would wait
            moved[name] = value.to(device, non_blocking=True)
    return cast("Batch", moved)
