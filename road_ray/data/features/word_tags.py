"""Encode tagged sentences as rows of token ids; a word's label is at its first sub-token."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from road_ray.data.features.batch_tokenization import tokenized
from road_ray.data.features.examples_and_features import UNKNOWN, Features, Longs, TagExample
from road_ray.data.features.ragged import ranges, starts_of
from road_ray.data.features.special_tokens import special_tokens, word_prefix
from road_ray.data.features.text_rows import bounds_of
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
    """Return rows ``[CLS] words [SEP]``; ``labels`` has -100 but at the first token of a word.

    A sentence that is too long continues in a further row, so every word is in exactly one. A word
    without sub-tokens, such as a control character, becomes ``[UNK]``. Source: Devlin et
    al. 2019, section 5.3 (the first sub-token stands for the word).
    """
    special, space = special_tokens(tokenizer, 1), word_prefix(tokenizer)
    before, room = len(special.before), max_length_tokens - special.count
    if room < 1:
        raise ConfigError(
            f"max_length_tokens = {max_length_tokens}\n  allowed: at least {special.count + 1}"
        )
    labels = tag_numbers(examples, task)
    words = tokenized([space + word for e in examples for word in e.words], tokenizer)
    parts: Longs = np.minimum(np.maximum(words.lengths, 1), room)  # an empty word becomes [UNK]
    row_of_word, rows = _rows(examples, parts, room, name)
    filled = np.bincount(row_of_word, weights=parts, minlength=len(rows)).astype(np.int64)
    bounds = bounds_of(filled + special.count)
    tokens = np.empty(int(bounds[-1]), np.int32)
    for number, token in enumerate(special.before):
        tokens[bounds[:-1] + number] = token
    for number, token in enumerate(special.after):
        tokens[bounds[1:] - len(special.after) + number] = token
    # Words follow each other; each row before a word put its special tokens between them.
    place = starts_of(parts) + special.count * row_of_word + before
    tokens[place] = tokenizer.unk_token_id
    word_lengths = np.minimum(words.lengths, parts)
    tokens[ranges(place, word_lengths)] = words.ids[ranges(words.starts, word_lengths)]
    numbers = np.full(len(tokens), -1, np.int32)
    numbers[place] = np.concatenate([np.arange(len(e.words)) for e in examples])
    gold = np.full(len(tokens), UNKNOWN, np.int64)
    gold[place] = labels
    return Features(
        dataset=name,
        task=task.name,
        tokens=tokens,
        bounds=bounds,
        first_segment=np.diff(bounds).astype(np.int32),
        gold={"labels": gold},
        example=rows,
        words=numbers,
    )


def _rows(
    examples: Sequence[TagExample], parts: Longs, room: int, name: str
) -> tuple[Longs, np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """Return the row of every word, and the example of every row."""
    row_of_word = np.empty(len(parts), np.int64)
    rows: list[int] = []
    word = 0
    for index, example in enumerate(examples):
        room_left = 0
        for size in parts[word : word + len(example.words)].tolist():
            if size > room_left or not rows or rows[-1] != index:
                rows.append(index)
                room_left = room
            room_left -= size
            row_of_word[word] = len(rows) - 1
            word += 1
    if len(rows) > len(examples):
        _log.info("%s: %d sentences need a further row", name, len(rows) - len(examples))
    return row_of_word, np.array(rows, np.int32)


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
