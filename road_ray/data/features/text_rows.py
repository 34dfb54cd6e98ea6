"""Join one or two texts as rows of token ids with special tokens."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.batch_tokenization import tokenized
from road_ray.data.features.examples_and_features import Ints, Longs
from road_ray.data.features.ragged import Ragged, ranges, starts_of
from road_ray.data.features.special_tokens import SpecialTokens, special_tokens
from road_ray.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_log = logging.getLogger(__name__)


class TokenRows(TypedDict):
    """Fields of ``Features`` that hold the tokens."""

    tokens: Ints
    bounds: Longs
    first_segment: Ints


def text_rows(
    columns: Sequence[Sequence[str]],
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
    name: str,
) -> TokenRows:
    """Return rows ``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]``, truncated longest first."""
    special = special_tokens(tokenizer, len(columns))
    room = max_length_tokens - special.count
    if room < len(columns):
        raise ConfigError(
            f"max_length_tokens = {max_length_tokens} leaves no room for text; "
            f"allowed: at least {special.count + len(columns)}"
        )
    parts = [tokenized(texts, tokenizer) for texts in columns]
    full = np.stack([part.lengths for part in parts])
    truncated = longest_first(full, room)
    cut = int((truncated < full).any(0).sum())
    if cut:
        _log.info(
            "%s: cut %d of %d rows to %d tokens", name, cut, len(truncated[0]), max_length_tokens
        )
    parts = [part.truncated(lengths) for part, lengths in zip(parts, truncated, strict=True)]
    tokens, lengths = assembled(parts, special)
    inner = special.between if len(columns) > 1 else special.after
    return {
        "tokens": tokens,
        "bounds": bounds_of(lengths),
        "first_segment": (len(special.before) + truncated[0] + len(inner)).astype(np.int32),
    }


def bounds_of(lengths: Longs) -> Longs:
    """Return the starts of rows of these lengths, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def longest_first(lengths: Longs, room: int) -> Longs:
    """Return the truncated length of each text, ``[texts, rows] -> [texts, rows]``.

    The longer text is cut down to the shorter, then both to half; an odd token goes to the longer,
    or to the second.
    Source: Hugging Face tokenizers, truncation.rs.
    """
    if len(lengths) == 1:
        return np.minimum(lengths, room)
    short, long = lengths.min(0), lengths.max(0)
    fair = short > room // 2
    kept_short = np.where(fair, room // 2, short)
    kept_long = np.minimum(long, room - kept_short)
    first_is_long = lengths[0] > lengths[1]
    first = np.where(first_is_long, kept_long, kept_short)
    second = np.where(first_is_long, kept_short, kept_long)
    return np.where(lengths.sum(0) <= room, lengths, np.stack([first, second]))


def assembled(parts: Sequence[Ragged], special: SpecialTokens) -> tuple[NDArray[np.int32], Longs]:
    """Return token ids of the joined texts with special tokens, and row lengths."""
    lengths: Longs = np.sum([part.lengths for part in parts], axis=0) + special.count
    place = starts_of(lengths)
    tokens = np.empty(int(lengths.sum()), np.int32)
    place = _put(tokens, place, special.before)
    for number, part in enumerate(parts):
        if number:
            place = _put(tokens, place, special.between)
        tokens[ranges(place, part.lengths)] = part.ids[ranges(part.starts, part.lengths)]
        place = place + part.lengths
    _put(tokens, place, special.after)
    return tokens, lengths


def _put(tokens: Ints, place: Longs, ids: Ints) -> Longs:
    """Write the same ids into every row; return the places behind them."""
    for number, token in enumerate(ids):
        tokens[place + number] = token
    return place + len(ids)
