"""Measure the padding in the batches of the first epoch of a fine-tuning, in the package's order.

Usage: python docs/results/padding.py DATA    (prints a Markdown table; a minute)
       python docs/results/padding.py         (prints the times of `encoder.attention`; ten minutes)

``padding`` is the share of positions without a token. ``random order`` is the share in batches of
the same size whose rows are not sorted by length. ``most gain`` is the bound of attention that
skips padding while the other layers compute it: the share of a layer's operations that queries and
keys at padding take, in ELECTRA-Small and -Base.

The second table has the CPU time of forward and backward pass, with dropout 0.1 in ELECTRA and none
in ModernBERT, for batches of 2,048 positions whose rows are 85% to 100% of the longest
(``similar``) or 12% to 100% (``mixed``); the best of five, padded and unpadded in turns.
"""

import sys
import time
from copy import deepcopy

import numpy as np
import torch
from transformers import CONFIG_MAPPING, AutoModel

from road_ray.data.batching import BatchStream, padded_width
from road_ray.data.config import SourceConfig
from road_ray.data.load_split import load_split
from road_ray.data.tokenizer import load_tokenizer
from road_ray.models.attention import use_attention, use_cpu_kernels

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
        source = SourceConfig(root=data, max_rows=ROWS, max_length_tokens=length)
        features = load_split(name, "train", source, tokenizer).features
        for size in BATCH_SIZES:
            stream = BatchStream(features, size, seed=0, pad_id=0)
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


FAMILIES = ("electra", "modernbert")
WIDTH, LAYERS, POSITIONS, REPEATS = 256, 4, 2048, 5
SHORTEST = {"similar": 0.85, "mixed": 0.12}  # of the longest row


def times() -> None:
    torch.set_num_threads(1)
    print("| model | longest row | rows | padding | padded, s | unpadded, s | padded / unpadded |")
    print("|---|---|---|---|---|---|---|")
    for family in FAMILIES:
        for longest in (64, 256, 1024):
            for kind, shortest in SHORTEST.items():
                mask = mask_of(longest, shortest)
                padded, unpadded = times_of(family, mask)
                print(
                    f"| {family} | {longest} | {kind} | {1 - mask.double().mean():.1%} | "
                    f"{padded:.2f} | {unpadded:.2f} | {padded / unpadded:.2f} |",
                    flush=True,
                )


def mask_of(longest: int, shortest: float) -> torch.Tensor:
    """Return the attention mask of a batch of rows of evenly spread lengths."""
    lengths = torch.linspace(shortest * longest, longest, POSITIONS // longest).round()
    lengths[-1] = longest
    return (torch.arange(longest) < lengths[:, None]).long()


def times_of(family: str, mask: torch.Tensor) -> list[float]:
    """Return the seconds of forward and backward pass of padded and of unpadded rows."""
    special = {"pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2}
    special |= {"bos_token_id": 1, "eos_token_id": 2}
    config = CONFIG_MAPPING[family](
        vocab_size=1000,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=WIDTH // 64,
        intermediate_size=1024 if family == "electra" else 384,
        max_position_embeddings=1024,
        **special,
    )
    padded = AutoModel.from_config(config).train()
    use_cpu_kernels(padded)
    unpadded = deepcopy(padded)
    use_attention(unpadded, "unpadded", None)
    ids = torch.randint(5, 1000, mask.shape) * mask
    best = [float("inf")] * 2
    for _ in range(REPEATS):
        for number, encoder in enumerate((padded, unpadded)):
            started = time.process_time()
            states = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            states.square().mean().backward()
            best[number] = min(best[number], time.process_time() - started)
    return best


if __name__ == "__main__":
    main(sys.argv[1]) if len(sys.argv) > 1 else times()
