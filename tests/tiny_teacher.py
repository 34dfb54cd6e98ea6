"""A tiny teacher on disk: one ELECTRA layer and a word-piece tokenizer of 24 words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from tests.tiny_encoder import small_config

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
    """Random weights for ``nli`` (or any classes), ``mrc`` or ``similarity``, as
    ``save_pretrained`` leaves them.
    """
    from transformers import ElectraForQuestionAnswering, ElectraForSequenceClassification

    labels = {"nli": labels, "mrc": ("start", "end"), "similarity": ("score",)}[kind]
    config = small_config(
        vocab_size=len(WORDS),
        num_hidden_layers=1,
        max_position_embeddings=32,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )
    torch.manual_seed(seed)
    model = (ElectraForQuestionAnswering if kind == "mrc" else ElectraForSequenceClassification)(
        config
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # so that teachers differ and classes vary
    model.save_pretrained(directory)
    make_tokenizer().save_pretrained(directory)
    return directory
