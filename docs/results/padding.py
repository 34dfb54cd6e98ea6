"""Measure the padding in the batches of the first epoch of a fine-tuning, in the package's order.

Usage: python docs/results/padding.py DATA    (prints a Markdown table; a minute)

``padding`` is the share of positions without a token. ``random order`` is the share in batches of
the same size whose rows are not sorted by length. ``most gain`` is the bound of attention that
skips padding while the other layers compute it: the share of a layer's operations that queries and
keys at padding take, in ELECTRA-Small and -Base.
"""

from __future__ import annotations

import sys

import numpy as np

from road_ray.data.batching import Batching, BatchStream
from road_ray.data.config import SourceConfig
from road_ray.data.load_split import load_split
from road_ray.data.shuffle_into_batches import padded_width
from road_ray.data.tokenizer import load_tokenizer

ROWS = 100_000
SETS = {
    "cola": 128,
    "sst2": 128,
    "mrpc": 128,
    "mnli": 128,
    "squad_v2": 512,
}
BATCH_SIZES = (32, 128)
SHAPES = {"Small": (256, 1024), "Base": (768, 3072)}  # width, inner width


def main(data: str) -> None:
    tokenizer = load_tokenizer(f"{data}/vocab/bert-base-uncased-vocab.txt")
    gains = " | ".join(f"most gain, {name}" for name in SHAPES)
    print(f"| data set | rows | batch | padding | random order | {gains} |")
    print("|---|---|---|---|---|" + "---|" * len(SHAPES))
    for name, length in SETS.items():
        source = SourceConfig(root=data, max_rows=ROWS, max_length_tokens=length, cache="off")
        features = load_split(name, "train", source, tokenizer).features
        for size in BATCH_SIZES:
            stream = BatchStream(features, Batching(size, seed=0), pad_id=0)
            batches = [stream.row_numbers(k) for k in range(stream.batches_per_epoch)]
            lengths = [features.lengths[numbers] for numbers in batches]
            shuffled = np.random.default_rng(0).permutation(features.lengths)
            randomly = np.array_split(shuffled, len(batches))
            figures = [
                padding(lengths),
                padding(randomly),
                *(gain(lengths, *s) for s in SHAPES.values()),
            ]
            print(
                f"| {name} | {len(features):,} | {size} | "
                + " | ".join(f"{x:.1%}" for x in figures)
                + " |",
                flush=True,
            )


def padding(batches: list[np.ndarray]) -> float:
    """Return the share of positions that hold no token."""
    positions = sum(len(rows) * padded_width(int(rows.max())) for rows in batches)
    return 1 - sum(int(rows.sum()) for rows in batches) / positions


def gain(batches: list[np.ndarray], width: int, inner: int) -> float:
    """Return the share of a layer's matrix products that attention spends on padding."""
    wasted = total = 0.0
    for rows in batches:
        longest = padded_width(int(rows.max()))
        scores = 4 * width * len(rows) * longest**2  # query times key, weights times value
        total += scores + len(rows) * longest * (8 * width**2 + 4 * width * inner)
        wasted += scores - 4 * width * float((rows.astype(np.float64) ** 2).sum())
    return wasted / total


if __name__ == "__main__":
    main(sys.argv[1])
