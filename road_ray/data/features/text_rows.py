"""Rows of token ids as a tokenizer makes them, packed into arrays: texts, and words with tags.

Special tokens, segments and truncation are the tokenizer's: the inputs of a model equal those of
``tokenizer(...)`` in plain ``transformers``. A word's label is at its first sub-token.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from road_ray.data.examples import UNKNOWN, Features, Longs, TagExample
from road_ray.data.task_and_dataset import Tag, Task
from road_ray.errors import ConfigError, DataError

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import BatchEncoding, PreTrainedTokenizerFast


_log = logging.getLogger(__name__)

ROWS_AT_A_TIME = 1024  # a Rust encoding takes a hundred times the memory of its ids


def text_rows(
    columns: Sequence[Sequence[Any]],
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
    stride_tokens: int | None = None,
    of_words: bool = False,
) -> dict[str, Any]:
    """Return rows of one text or of two, truncated longest first, as fields of ``Features``; with
    ``stride_tokens`` the windows of one text, which begin so many tokens after each other (0: they
    do not overlap). ``of_words`` are texts that are lists of words, whose numbers are ``words``.
    """
    check_fast(tokenizer)
    special = tokenizer.num_special_tokens_to_add(pair=len(columns) == 2)
    if max_length_tokens < special + len(columns):
        raise ConfigError(
            f"max_length_tokens = {max_length_tokens} leaves no room for text; "
            f"allowed: at least {special + len(columns)}"
        )
    options: dict[str, Any] = {"truncation": True, "max_length": max_length_tokens}
    options["is_split_into_words"] = of_words
    if stride_tokens is not None:
        room = max_length_tokens - special
        overlap = room - min(stride_tokens or room, room)
        options |= {"return_overflowing_tokens": True, "stride": overlap}
    made = RowsOfTokens(tokenizer, num_texts=len(columns), of_words=of_words)
    rows, tokens, example = 0, 0, list[int]()
    for first in range(0, len(columns[0]), ROWS_AT_A_TIME):
        chunk = [list(texts[first : first + ROWS_AT_A_TIME]) for texts in columns]
        encoded = tokenized(tokenizer, *chunk, **options)
        made.add(encoded.encodings or [])
        of = encoded.get("overflow_to_sample_mapping", range(len(encoded["input_ids"])))
        example += [first + number for number in of]
        cut = [n for n, encoding in enumerate(encoded.encodings or []) if encoding.overflowing]
        # The rest of a pair overflows in several ways, so whole texts are counted.
        if cut and stride_tokens is None:
            whole = tokenized(tokenizer, *([texts[n] for n in cut] for texts in chunk))
            rows += len(cut)
            tokens += sum(map(len, whole["input_ids"]))
            tokens -= sum(len(encoded["input_ids"][n]) for n in cut)
    of_rows = np.array(example, np.int32)
    return {**made.fields(), "example": of_rows, "num_truncated": rows, "tokens_cut": tokens}


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


class RowsOfTokens:
    """Rows of encodings, one after another. A row without any token, of an empty text and a
    tokenizer without special tokens, gets the unknown token: a model cannot read nothing.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, *, num_texts: int = 1, of_words: bool = False
    ) -> None:
        self.num_texts, self.of_words = num_texts, of_words
        ids = (tokenizer.unk_token_id, tokenizer.pad_token_id)
        self.filler = next((number for number in ids if number), 0)
        self.has_segments = "token_type_ids" in tokenizer.model_input_names
        self.tokens, self.segments = array("i"), array("b")
        self.lengths, self.firsts, self.words = array("q"), array("i"), array("i")

    def add(self, encodings: Sequence[Encoding]) -> None:
        """Append rows; of each only the numbers are kept."""
        for encoding in encodings:
            row = encoding.ids or [self.filler]
            self.tokens.extend(row)
            self.lengths.append(len(row))
            one = self.num_texts == 1
            self.firsts.append(len(row) if one else second_begins(encoding.sequence_ids))
            if self.has_segments:
                self.segments.extend(encoding.type_ids or [0])
            if self.of_words:
                numbers = encoding.word_ids or [None]
                self.words.extend(-1 if word is None else word for word in numbers)

    def fields(self) -> dict[str, Any]:
        """Return all rows, as fields of ``Features``."""
        return {
            "tokens": np.array(self.tokens, np.int32),
            "bounds": bounds_of(np.array(self.lengths, np.int64)),
            "first_segment": np.array(self.firsts, np.int32),
            "segments": np.array(self.segments, np.int8) if self.has_segments else None,
            "words": np.array(self.words, np.int32) if self.of_words else None,
        }


def second_begins(texts: Sequence[int | None]) -> int:
    """Return where the second text begins, given the text of each token; if it has no token, the
    last special token.
    """
    return texts.index(1) if 1 in texts else max(len(texts) - 1, 0)


def bounds_of(lengths: Longs) -> Longs:
    """Return the starts of rows of these lengths, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


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
    labels = np.array(tag_numbers(examples, task), np.int64)
    texts = [list(example.words) for example in examples]
    rows = text_rows(
        [texts], tokenizer, max_length_tokens=max_length_tokens, stride_tokens=0, of_words=True
    )
    if (further := len(rows["example"]) - len(examples)) > 0:
        _log.info("%s: %d sentences need a further row", name, further)
    # The number of each word over all sentences: one that goes on in a further row has the same.
    words, examples_of = rows["words"], np.repeat(rows["example"], np.diff(rows["bounds"]))
    inside = np.flatnonzero(words >= 0)
    numbers = np.cumsum([0, *map(len, texts)])[examples_of[inside]] + words[inside]
    begins = np.diff(numbers, prepend=-1) != 0
    words[inside[~begins]] = -1
    gold = np.full(len(words), UNKNOWN, np.int64)
    gold[inside[begins]] = labels[numbers[begins]]
    limit = max_length_tokens
    return Features(name, task.name, gold={"labels": gold}, max_length_tokens=limit, **rows)


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
