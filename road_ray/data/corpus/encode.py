"""A block of documents to rows of token ids; here, or in a process of its own.

``python -m road_ray.data.corpus.encode`` answers blocks on its standard input, so that all cores
tokenise. Frames are a length and bytes: nothing that could run code is exchanged.
"""

from __future__ import annotations

import json
import re
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import IO, Any

import numpy as np

from road_ray.data.corpus.segments import TokenIds, two_segments
from road_ray.data.features.types import Ints
from road_ray.data.features.wordpiece_cache import WordPieceCache

# A row takes whole sentences and drops what overhangs, so paragraphs are cut up first (our choice).
_SENTENCE_END = re.compile(r"\n+|(?<=[.!?])\s+")
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Encoded:
    """The rows of one block, one after the other."""

    documents: int
    tokens: Ints
    lengths: Ints  # of each row
    first_segments: Ints


@dataclass(frozen=True)
class Encoder:
    """How text becomes rows: the same block number and text give the same rows anywhere."""

    tokenizer: Any  # of the library `tokenizers`
    cls_id: int
    sep_id: int
    max_length_tokens: int
    seed: int

    @cached_property
    def words(self) -> WordPieceCache:
        """What is known of words from earlier blocks; changes nothing but the time."""
        return WordPieceCache(self.tokenizer)

    @classmethod
    def of(cls, tokenizer: Any, *, max_length_tokens: int, seed: int) -> Encoder:
        """From a tokenizer of ``transformers``, whose limits of earlier calls are left behind."""
        from tokenizers import Tokenizer

        backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        backend.no_truncation()
        backend.no_padding()
        ids = int(tokenizer.cls_token_id), int(tokenizer.sep_token_id)
        return cls(backend, *ids, max_length_tokens, seed)

    def encode(self, number: int, documents: Sequence[str]) -> Encoded:
        """The rows of block ``number``; no row holds text of two documents."""
        split = [[part for part in _SENTENCE_END.split(text) if part.strip()] for text in documents]
        flat = list(chain.from_iterable(split))
        encoded = iter(self.words.encode(flat))
        rng = np.random.default_rng((self.seed, number))
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
        )

    @classmethod
    def from_settings(cls, told: bytes) -> Encoder:
        """The equal of the one that has these ``settings``."""
        from tokenizers import Tokenizer

        given = json.loads(told)
        return cls(**given | {"tokenizer": Tokenizer.from_str(given["tokenizer"])})

    def settings(self) -> bytes:
        """What another process needs to make an equal one."""
        told = {
            "tokenizer": self.tokenizer.to_str(),
            "cls_id": self.cls_id,
            "sep_id": self.sep_id,
            "max_length_tokens": self.max_length_tokens,
            "seed": self.seed,
        }
        return json.dumps(told).encode()


def write_frame(stream: IO[bytes], content: bytes) -> None:
    """One message: its length, then its bytes."""
    stream.write(_LENGTH.pack(len(content)))
    stream.write(content)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes:
    """The next message. Raises ``EOFError`` where there is none."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (size,) = _LENGTH.unpack(head)
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return content


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Settings first, then blocks, until the source ends."""
    encoder = Encoder.from_settings(read_frame(source))
    while True:
        try:
            number, documents = json.loads(read_frame(source))
        except EOFError:
            return
        found = encoder.encode(number, documents)
        write_frame(sink, json.dumps(found.documents).encode())
        for part in (found.tokens, found.lengths, found.first_segments):
            write_frame(sink, part.tobytes())


def ask(sink: IO[bytes], source: IO[bytes], number: int, documents: Sequence[str]) -> Encoded:
    """Let the process behind the two streams encode a block."""
    write_frame(sink, json.dumps([number, documents]).encode())
    count = int(json.loads(read_frame(source)))
    parts = [np.frombuffer(read_frame(source), dtype=np.int32) for _ in range(3)]
    return Encoded(count, *parts)


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
