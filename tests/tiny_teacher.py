"""A tiny teacher on disk: one ELECTRA layer and a word-piece tokenizer of 24 words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnop", "good", "bad", "film"]
LABELS = ("contradiction", "entailment", "neutral")


def make_tokenizer(words: Sequence[str] = WORDS, **options: object) -> PreTrainedTokenizerBase:
    from transformers import ElectraTokenizer

    return ElectraTokenizer(vocab={word: index for index, word in enumerate(words)}, **options)


def make_batch(seed: int, *, kind: str = "nli", size: int = 4, length: int = 10) -> dict:
    """Random rows with gold; the last one is half padding."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, len(WORDS), (size, length), generator=generator)
    mask = torch.ones_like(ids)
    mask[-1, length // 2 :] = 0
    segments = (torch.arange(length) >= 3).long().expand(size, length).clone()
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
    if kind == "mrc":
        start = torch.randint(0, 5, (size,), generator=generator)
        return inputs | {"start_positions": start, "end_positions": start.clone()}
    return inputs | {"labels": torch.randint(3, (size,), generator=generator)}


def make_teacher(
    directory: Path, seed: int = 0, *, kind: str = "nli", labels: Sequence[str] = LABELS
) -> Path:
    """Random weights for ``nli`` (or any classes), ``mrc`` or ``similarity``."""
    from tests.published import publish

    labels = {"nli": labels, "mrc": ("start", "end"), "similarity": ("score",)}[kind]
    head = "ForQuestionAnswering" if kind == "mrc" else "ForSequenceClassification"
    given = {"layers": 1, "tokenizer": make_tokenizer(), "max_position_embeddings": 32}
    return publish(directory, "electra", head, labels=labels, seed=seed, **given)
