"""Rows of token ids as a tokenizer makes them, packed into arrays: texts, and words with tags.

Special tokens, segments and truncation are the tokenizer's: the inputs of a model equal those of
``tokenizer(...)`` in plain ``transformers``. A word's label is at its first sub-token.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import (
    UNKNOWN,
    Bytes,
    Features,
    Ints,
    Longs,
    TagExample,
)
from road_ray.data.task_and_dataset import Tag, Task
from road_ray.errors import ConfigError, DataError

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import BatchEncoding, PreTrainedTokenizerFast


_log = logging.getLogger(__name__)

ROWS_AT_A_TIME = 1024  # a Rust encoding takes a hundred times the memory of its ids


class TokenRows(TypedDict):
    """Fields of ``Features`` that hold the tokens."""

    tokens: Ints
    bounds: Longs
    first_segment: Ints
    segments: Bytes | None


class TextRows(TokenRows):
    """``TokenRows``, the number of each row's text, how many rows were truncated, and by how many
    tokens together.
    """

    example: Ints
    num_truncated: int
    tokens_cut: int


def text_rows(
    columns: Sequence[Sequence[str]],
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
    stride_tokens: int | None = None,
) -> TextRows:
    """Return rows of one text or of two, truncated longest first; with ``stride_tokens`` the
    windows of one text, which begin so many tokens after each other (0: they do not overlap).
    """
    check_fast(tokenizer)
    special = tokenizer.num_special_tokens_to_add(pair=len(columns) == 2)
    if max_length_tokens < special + len(columns):
        raise ConfigError(
            f"max_length_tokens = {max_length_tokens} leaves no room for text; "
            f"allowed: at least {special + len(columns)}"
        )
    options: dict[str, Any] = {"truncation": True, "max_length": max_length_tokens}
    if stride_tokens is not None:
        room = max_length_tokens - special
        overlap = room - min(stride_tokens or room, room)
        options |= {"return_overflowing_tokens": True, "stride": overlap}
    parts, rows, tokens, texts_of_rows = list[TokenRows](), 0, 0, [np.zeros(0, np.int32)]
    for first in range(0, len(columns[0]), ROWS_AT_A_TIME):
        chunk = [list(texts[first : first + ROWS_AT_A_TIME]) for texts in columns]
        encoded = tokenized(tokenizer, *chunk, **options)
        parts.append(packed(encoded.encodings or [], tokenizer, num_texts=len(columns)))
        of = encoded.get("overflow_to_sample_mapping", range(len(encoded["input_ids"])))
        texts_of_rows.append(np.array(of, np.int32) + first)
        cut = [n for n, encoding in enumerate(encoded.encodings or []) if encoding.overflowing]
        if (
            cut and stride_tokens is None
        ):  # the rest of a pair overflows in several ways, so whole texts are counted
            whole = tokenized(tokenizer, *([texts[n] for n in cut] for texts in chunk))
            rows += len(cut)
            tokens += sum(map(len, whole["input_ids"]))
            tokens -= sum(len(encoded["input_ids"][n]) for n in cut)
    example = np.concatenate(texts_of_rows).astype(np.int32)
    return {**joined(parts), "example": example, "num_truncated": rows, "tokens_cut": tokens}


def check_fast(tokenizer: PreTrainedTokenizerFast) -> None:
    """Raise ``ConfigError`` for a slow tokenizer, which knows no offsets."""
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(
            f"{type(tokenizer).__name__} has no Rust tokenizer behind it\n"
            "  fix: use a fast tokenizer (tokenizer.json), which also gives character offsets"
        )


def tokenized(
    tokenizer: PreTrainedTokenizerFast, *columns: Any, **options: object
) -> BatchEncoding:
    """Return ``tokenizer(*columns, **options)``; the tokenizer then forgets the truncation, which
    would be saved with it.
    """
    call: Any = tokenizer
    try:
        encoded: BatchEncoding = call(
            *columns, return_attention_mask=False, padding=False, verbose=False, **options
        )
        return encoded
    finally:
        tokenizer.backend_tokenizer.no_truncation()


def packed(
    encodings: Sequence[Encoding], tokenizer: PreTrainedTokenizerFast, *, num_texts: int = 1
) -> TokenRows:
    """Return the rows of encodings. A row without any token, of an empty text and a tokenizer
    without special tokens, gets the unknown token: a model cannot read nothing.
    """
    filler = next((n for n in (tokenizer.unk_token_id, tokenizer.pad_token_id) if n), 0)
    rows = [encoding.ids or [filler] for encoding in encodings]
    lengths = [len(row) for row in rows]
    segments = None
    if "token_type_ids" in tokenizer.model_input_names:
        segments = _flat([encoding.type_ids or [0] for encoding in encodings], np.int8)
    firsts = lengths if num_texts == 1 else [second_begins(of.sequence_ids) for of in encodings]
    return {
        "tokens": _flat(rows, np.int32),
        "bounds": bounds_of(np.array(lengths, np.int64)),
        "first_segment": np.array(firsts, np.int32),
        "segments": segments,
    }


def second_begins(texts: Sequence[int | None]) -> int:
    """Return where the second text begins, given the text of each token; if it has no token, the
    last special token.
    """
    return texts.index(1) if 1 in texts else max(len(texts) - 1, 0)


def joined(parts: Sequence[TokenRows]) -> TokenRows:
    """Return the rows of all parts, one after another."""
    lengths = [np.zeros(0, np.int64), *(np.diff(part["bounds"]) for part in parts)]
    segments = [part["segments"] for part in parts if part["segments"] is not None]
    return {
        "tokens": np.concatenate([np.zeros(0, np.int32), *(part["tokens"] for part in parts)]),
        "bounds": bounds_of(np.concatenate(lengths)),
        "first_segment": np.concatenate(
            [np.zeros(0, np.int32), *(part["first_segment"] for part in parts)]
        ),
        "segments": np.concatenate(segments) if segments else None,
    }


def bounds_of(lengths: Longs) -> Longs:
    """Return the starts of rows of these lengths, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _flat(rows: Sequence[Sequence[int]], dtype: Any) -> NDArray[Any]:
    return np.fromiter(chain.from_iterable(rows), dtype)


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
