"""Tokenization of many texts at once: token ids and the characters that tokens stand for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import Ints
from road_ray.data.features.ragged import Ragged, starts_of
from road_ray.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_TEXTS_AT_A_TIME = 1024
_SPACES = np.array([code for code in range(0x3001) if chr(code).isspace()], np.uint32)


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
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    letters = ~np.isin(codes, _SPACES)
    before = np.concatenate([[0], np.cumsum(letters)])  # letters before each place
    places = np.append(np.flatnonzero(letters), len(text))
    first, last = before[offsets[:, 0]], before[offsets[:, 1]]
    shown = np.stack([places[first], places[last - 1] + 1], 1).astype(np.int32)
    return np.where((last > first)[:, None], shown, offsets)


def _flat(rows: Any) -> NDArray[np.int32]:
    return np.fromiter(chain.from_iterable(rows), np.int32)
