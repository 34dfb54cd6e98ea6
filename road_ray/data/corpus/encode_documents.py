"""Encode a block of documents as rows of token ids, in this process or in a worker."""

from __future__ import annotations

import hashlib
import json
import os
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import chain, islice
from typing import Any

import numpy as np

from road_ray.data.corpus.segments import TokenIds, two_segments
from road_ray.data.features.examples_and_features import Ints

# A row takes whole sentences and truncates the last, so paragraphs are split first (our choice).
_SENTENCE_END = re.compile(r"\n+|(?<=[.!?])\s+")


@dataclass(frozen=True)
class Encoded:
    """Rows of one block, concatenated."""

    documents: int
    tokens: Ints
    lengths: Ints  # of each row
    first_segments: Ints
    text: str = ""  # digest of the documents


def text_digest(documents: Sequence[str]) -> str:
    """Return the sha256 of documents."""
    return hashlib.sha256(json.dumps(documents, ensure_ascii=False).encode()).hexdigest()


@dataclass(frozen=True)
class Encoder:
    """Encoder of text as rows, which depend only on part, number of the block and text."""

    tokenizer: Any  # of the library `tokenizers`
    cls_id: int
    sep_id: int
    max_length_tokens: int
    seed: int

    @classmethod
    def of(cls, tokenizer: Any, *, max_length_tokens: int, seed: int) -> Encoder:
        """Return an encoder with an untruncating copy of a tokenizer of ``transformers``."""
        from tokenizers import Tokenizer

        backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        backend.no_truncation()
        backend.no_padding()
        ids = int(tokenizer.cls_token_id), int(tokenizer.sep_token_id)
        return cls(backend, *ids, max_length_tokens, seed)

    def encode(self, number: int, documents: Sequence[str], part: int = 0) -> Encoded:
        """Return the rows of block ``number`` of a part; no row holds text of two documents."""
        split = [[part for part in _SENTENCE_END.split(text) if part.strip()] for text in documents]
        flat = list(chain.from_iterable(split))
        encodings = self.tokenizer.encode_batch_fast(flat, add_special_tokens=False)
        encoded: Iterator[TokenIds] = (array("i", encoding.ids) for encoding in encodings)
        rng = np.random.default_rng((self.seed, number, part))
        rows: list[TokenIds] = []
        firsts: list[int] = []
        for sentences in split:
            for row, first in two_segments(
                list(islice(encoded, len(sentences))),
                max_length_tokens=self.max_length_tokens,
                cls_id=self.cls_id,
                sep_id=self.sep_id,
                rng=rng,
            ):
                rows.append(row)
                firsts.append(first)
        return Encoded(
            documents=len(documents),
            tokens=np.frombuffer(b"".join(rows), dtype=np.int32),
            lengths=np.array([len(row) for row in rows], dtype=np.int32),
            first_segments=np.array(firsts, dtype=np.int32),
            text=text_digest(documents),
        )

    @classmethod
    def from_settings(cls, settings: bytes) -> Encoder:
        """Return an encoder equal to the one whose ``settings`` these are."""
        from tokenizers import Tokenizer

        values = json.loads(settings)
        return cls(**values | {"tokenizer": Tokenizer.from_str(values["tokenizer"])})

    def settings(self) -> bytes:
        """Return the settings from which another process makes an equal encoder."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps(values | {"tokenizer": self.tokenizer.to_str()}).encode()


def encode_block(settings: bytes, part: int, number: int, documents: Sequence[str]) -> Encoded:
    """Encode a block in a worker process, which keeps the encoder for the next blocks."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a worker has one core
    return _encoder(settings).encode(number, documents, part)


@lru_cache(maxsize=2)
def _encoder(settings: bytes) -> Encoder:
    return Encoder.from_settings(settings)
