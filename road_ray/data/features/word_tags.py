"""Encode tagged sentences as rows of token ids; a word's label is at its first sub-token."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from road_ray.data.features.examples_and_features import UNKNOWN, Features, TagExample
from road_ray.data.features.text_rows import (
    ROWS_AT_A_TIME,
    TokenRows,
    check_fast,
    joined,
    packed,
    tokenized,
)
from road_ray.data.task_and_dataset import Tag, Task
from road_ray.errors import ConfigError, DataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_log = logging.getLogger(__name__)


def encode_tags(
    examples: Sequence[TagExample],
    name: str,
    task: Task,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
) -> Features:
    """Return rows of words; ``labels`` has -100 but at the first token of a word.

    A sentence that is too long continues in a further row. A word without sub-tokens, such as a
    control character, is in no row. Source: Devlin et al. 2019, section 5.3 (the first sub-token
    stands for the word).
    """
    check_fast(tokenizer)
    special = tokenizer.num_special_tokens_to_add()
    if max_length_tokens <= special:
        raise ConfigError(
            f"max_length_tokens = {max_length_tokens}\n  allowed: at least {special + 1}"
        )
    labels = np.array(tag_numbers(examples, task), np.int64)
    parts: list[TokenRows] = []
    row_examples, words, gold = [], [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    first_word = np.cumsum([0, *(len(example.words) for example in examples)])
    for first in range(0, len(examples), ROWS_AT_A_TIME):
        chunk = [list(example.words) for example in examples[first : first + ROWS_AT_A_TIME]]
        encoded = tokenized(
            tokenizer,
            chunk,
            is_split_into_words=True,
            truncation=True,
            max_length=max_length_tokens,
            return_overflowing_tokens=True,
        )
        parts.append(packed(encoded.encodings or [], tokenizer))
        seen = (-1, -1)  # example and word of the last token, which may go on in the next row
        for row, sample in enumerate(encoded["overflow_to_sample_mapping"]):
            example = first + sample
            row_examples.append(example)
            ids = encoded.word_ids(row) or [None]  # a row without tokens has one
            numbers = np.full(len(ids), -1, np.int32)
            for place, word in enumerate(ids):
                if word is not None and (example, word) != seen:
                    numbers[place], seen = word, (example, word)
            words.append(numbers)
            known = labels[first_word[example] + numbers.clip(0)] if len(labels) else numbers
            gold.append(np.where(numbers < 0, UNKNOWN, known))
    if len(row_examples) > len(examples):
        further = len(row_examples) - len(examples)
        _log.info("%s: %d sentences need a further row", name, further)
    return Features(
        dataset=name,
        task=task.name,
        gold={"labels": np.concatenate(gold)},
        example=np.array(row_examples, np.int32),
        max_length_tokens=max_length_tokens,
        words=np.concatenate(words),
        **joined(parts),
    )


def tag_numbers(examples: Sequence[TagExample], task: Task) -> list[int]:
    """Return the class of every word. Raises ``DataError`` for an unknown tag."""
    assert isinstance(task.kind, Tag)
    known = {label: index for index, label in enumerate(task.kind.labels)}
    labels: list[int] = []
    for example in examples:
        for word, tag in enumerate(example.tags or [None] * len(example.words)):
            if tag is not None and tag not in known:
                raise DataError(
                    f"{example.where}: word {word + 1} ({example.words[word]!r}) has the tag "
                    f"{tag!r}, allowed: {', '.join(known)}\n"
                    "  fix: correct the row, or name the tags in `labels` of the data set's entry"
                )
            labels.append(UNKNOWN if tag is None else known[tag])
    return labels
