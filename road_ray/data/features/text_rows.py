"""Rows of token ids as a tokenizer makes them, packed into arrays.

Special tokens, segments and truncation are the tokenizer's: the inputs of a model equal those of
``tokenizer(...)`` in plain ``transformers``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import Bytes, Ints, Longs
from road_ray.errors import ConfigError

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
    """``TokenRows``, and how many of them were truncated."""

    num_truncated: int


def text_rows(
    columns: Sequence[Sequence[str]],
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
    name: str,
) -> TextRows:
    """Return rows of one text or of two, truncated longest first."""
    check_fast(tokenizer)
    special = tokenizer.num_special_tokens_to_add(pair=len(columns) == 2)
    if max_length_tokens < special + len(columns):
        raise ConfigError(
            f"max_length_tokens = {max_length_tokens} leaves no room for text; "
            f"allowed: at least {special + len(columns)}"
        )
    parts, cut = [], 0
    for first in range(0, len(columns[0]), ROWS_AT_A_TIME):
        chunk = [list(texts[first : first + ROWS_AT_A_TIME]) for texts in columns]
        encoded = tokenized(tokenizer, *chunk, truncation=True, max_length=max_length_tokens)
        parts.append(packed(encoded.encodings or [], tokenizer, num_texts=len(columns)))
        cut += sum(bool(encoding.overflowing) for encoding in encoded.encodings or [])
    if cut:
        count = len(columns[0])
        _log.info("%s: cut %d of %d rows to %d tokens", name, cut, count, max_length_tokens)
    return {**joined(parts), "num_truncated": cut}


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
