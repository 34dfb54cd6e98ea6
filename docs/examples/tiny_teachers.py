"""Data and teachers made on the spot, so that the examples run anywhere in seconds.

In your own work the teachers are directories or hub names of models fine-tuned on your task, of any
architecture and size, with the tokenizer of the student.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    ElectraConfig,
    ElectraForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from road_ray.data.tokenizer import train_wordpiece

LABELS = ("negative", "positive")
NAMES = {"id2label": dict(enumerate(LABELS)), "label2id": {n: i for i, n in enumerate(LABELS)}}
_GOOD, _BAD = ("warm", "witty", "brilliant", "moving"), ("dull", "clumsy", "tedious", "hollow")
_THINGS = ("film", "plot", "cast", "ending", "script", "scene")


def sentences() -> list[dict[str, Any]]:
    """Sentences with a label, as rows of a data set."""
    made = []
    for thing, other in itertools.permutations(_THINGS, 2):
        for label, words in enumerate((_BAD, _GOOD)):
            for word in words:
                made.append({"text": f"the {thing} of this {other} is {word}", "labels": label})
    return made


def tokenizer() -> Any:
    """A word-piece tokenizer of these sentences."""
    return train_wordpiece([row["text"] for row in sentences()], vocab_size=120)


def encoded(words: Any) -> list[dict[str, Any]]:
    """The sentences as token ids, as a Hugging Face collator takes them."""
    return [dict(words(row["text"])) | {"labels": row["labels"]} for row in sentences()]


def shape(width: int, vocabulary: int) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 2 * width,
        "max_position_embeddings": 40,
        "pad_token_id": 0,
        "initializer_range": 0.2,  # for so narrow a model; large ones keep the default
        **NAMES,
    }


def student(words: Any) -> Any:
    """A small BERT with new weights."""
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(**shape(24, len(words))))


def teachers(place: Path, words: Any) -> list[Path]:
    """Three directories: a BERT, a RoBERTa and an ELECTRA, wider than the student."""
    from transformers import DataCollatorWithPadding

    kinds = (
        (BertConfig, BertForSequenceClassification, 32),
        (RobertaConfig, RobertaForSequenceClassification, 48),
        (ElectraConfig, ElectraForSequenceClassification, 32),
    )
    rows, collate = encoded(words), DataCollatorWithPadding(words)
    directories = []
    for number, (config, kind, width) in enumerate(kinds):
        torch.manual_seed(number)
        model = kind(config(**shape(width, len(words))))
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        batches = torch.utils.data.DataLoader(rows, 8, shuffle=True, collate_fn=collate)
        for batch in itertools.chain(batches, batches):
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        directory = place / kind.__name__
        model.save_pretrained(directory)
        words.save_pretrained(directory)
        directories.append(directory)
    return directories
