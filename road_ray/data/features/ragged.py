"""Arrays of rows of unequal length, and the tokenizer calls that fill them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.types import Ints, Longs
from road_ray.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_TEXTS_AT_A_TIME = 1024


@dataclass(frozen=True)
class Ragged:
    """Row ``r`` is ``ids[starts[r]:starts[r] + lengths[r]]``; equal rows may share their place.

    ``offsets`` are ``[tokens, 2]``: the characters that a token stands for, beside ``ids``.
    """

    ids: Ints
    starts: Longs
    lengths: Longs
    offsets: Ints | None = None

    def rows(self, index: Longs | slice) -> Ragged:
        """Return some of the rows, over the same tokens."""
        return replace(self, starts=self.starts[index], lengths=self.lengths[index])

    def truncated(self, lengths: Longs) -> Ragged:
        """Return all rows, truncated to these lengths."""
        return replace(self, lengths=lengths)


def starts_of(lengths: Longs) -> Longs:
    """Return the start of each row if rows of these lengths are concatenated."""
    return np.cumsum(lengths) - lengths


def ranges(starts: Longs, lengths: Longs) -> Longs:
    """Return ``start, start + 1, ...``, ``lengths[r]`` numbers for row ``r``, in one array."""
    shift = np.repeat(starts - starts_of(lengths), lengths)
    return shift + np.arange(len(shift))


def tokenized(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerFast, *, offsets: bool = False
) -> Ragged:
    """Return the token ids of each text without special tokens or truncation.

    ``offsets`` exclude spaces at both ends of a token: byte-level and Unigram tokenizers include
    the space before a word or not, depending on the version.
    """
    numbers: dict[str, int] = {}
    text_numbers = (numbers.setdefault(text, len(numbers)) for text in texts)
    index = np.fromiter(text_numbers, np.int64, len(texts))
    return _tokenized(list(numbers), backend_of(tokenizer), offsets).rows(index)


def _tokenized(texts: list[str], backend: Any, offsets: bool) -> Ragged:
    encode = backend.encode_batch if offsets else backend.encode_batch_fast
    ids: list[Ints] = [np.zeros(0, np.int32)]
    places: list[Ints] = [np.zeros((0, 2), np.int32)]
    counts: list[int] = []
    for first in range(0, len(texts), _TEXTS_AT_A_TIME):
        encodings = encode(texts[first : first + _TEXTS_AT_A_TIME], add_special_tokens=False)
        rows = [encoding.ids for encoding in encodings]
        counts += [len(row) for row in rows]
        ids.append(_flat(rows))
        if offsets:
            chunk = texts[first : first + _TEXTS_AT_A_TIME]
            for text, encoding in zip(chunk, encodings, strict=True):
                places.append(_shown(text, _flat(encoding.offsets).reshape(-1, 2)))
    lengths = np.array(counts, np.int64)
    all_offsets = np.concatenate(places) if offsets else None
    return Ragged(np.concatenate(ids), starts_of(lengths), lengths, all_offsets)


def _shown(text: str, offsets: Ints) -> Ints:
    """Return the offsets without the spaces at both ends of a token."""
    letters = np.fromiter((not letter.isspace() for letter in text), np.bool_, len(text))
    before = np.concatenate([[0], np.cumsum(letters)])  # letters before each place
    places = np.append(np.flatnonzero(letters), len(text))
    first, last = before[offsets[:, 0]], before[offsets[:, 1]]
    shown = np.stack([places[first], places[last - 1] + 1], 1).astype(np.int32)
    return np.where((last > first)[:, None], shown, offsets)


def _flat(rows: Any) -> NDArray[np.int32]:
    return np.fromiter(chain.from_iterable(rows), np.int32)


def backend_of(tokenizer: PreTrainedTokenizerFast) -> Any:
    """Return the Rust tokenizer, without truncation and padding. Raises ``ConfigError`` for a slow
    tokenizer, which has none.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ConfigError(
            f"{type(tokenizer).__name__} has no Rust tokenizer behind it\n"
            "  fix: use a fast tokenizer (tokenizer.json), which also gives character offsets"
        )
    # An earlier call may have set truncation; later calls set their own.
    backend.no_truncation()
    backend.no_padding()
    return backend
