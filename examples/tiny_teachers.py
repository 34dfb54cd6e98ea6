"""Data and teachers created on the fly, so that the examples run anywhere in seconds.

In practice the teachers are directories or hub names of models fine-tuned on your task, of any
architecture and size, with the tokenizer of the student.
"""

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
    """Return labelled sentences as rows of a data set."""
    rows = []
    for thing, other in itertools.permutations(_THINGS, 2):
        for label, words in enumerate((_BAD, _GOOD)):
            for word in words:
                rows.append({"text": f"the {thing} of this {other} is {word}", "labels": label})
    return rows


def make_tokenizer() -> Any:
    """Return a WordPiece tokenizer trained on the sentences."""
    return train_wordpiece([row["text"] for row in sentences()], vocab_size=120)


def encoded_rows(tokenizer: Any) -> list[dict[str, Any]]:
    """Return the sentences as token ids, as a Hugging Face collator expects them."""
    return [dict(tokenizer(row["text"])) | {"labels": row["labels"]} for row in sentences()]


def model_sizes(width: int, vocabulary: int) -> dict[str, Any]:
    """Return the configuration keys of a one-layer model."""
    return {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 2 * width,
        "max_position_embeddings": 40,
        "pad_token_id": 0,
        "initializer_range": 0.2,  # for a narrow model; larger ones keep the default
        **NAMES,
    }


def make_student(tokenizer: Any) -> Any:
    """Return a small BERT with random weights."""
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(**model_sizes(24, len(tokenizer))))


def train_teachers(folder: Path, tokenizer: Any) -> list[Path]:
    """Train a BERT, a RoBERTa and an ELECTRA, wider than the student; return their directories."""
    from transformers import DataCollatorWithPadding

    kinds = (
        (BertConfig, BertForSequenceClassification, 32),
        (RobertaConfig, RobertaForSequenceClassification, 48),
        (ElectraConfig, ElectraForSequenceClassification, 32),
    )
    rows, collate = encoded_rows(tokenizer), DataCollatorWithPadding(tokenizer)
    directories = []
    for number, (config, kind, width) in enumerate(kinds):
        torch.manual_seed(number)
        model = kind(config(**model_sizes(width, len(tokenizer))))
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        batches = torch.utils.data.DataLoader(rows, 8, shuffle=True, collate_fn=collate)
        for batch in itertools.chain(batches, batches):
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        directory = folder / kind.__name__
        model.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        directories.append(directory)
    return directories
