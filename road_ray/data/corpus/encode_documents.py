"""Encode documents as rows of one or two segments, as in ELECTRA's pre-training, in order, on all
cores of this machine.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from road_ray.data.examples import Ints
from road_ray.errors import ResourceError
from road_ray.system.operating_system import usable_cores

TokenIds: TypeAlias = "array[int]"  # of 32 bits

# Shares of rows with one segment, and of rows that aim at a random shorter length.
# Source: google electra, build_pretraining_dataset.py.
_SINGLE_SEGMENT_FRACTION = 0.1
_SHORT_FRACTION = 0.05
_BLOCK_CHARACTERS = 1 << 20  # about a second of a core
# A row takes whole sentences and truncates the last, so paragraphs are split first (our choice).
_SENTENCE_END = re.compile(r"\n+|(?<=[.!?])\s+")
_MIN_BLOCKS_FOR_PROCESSES = 4  # starting processes takes as long as encoding about two blocks


class Block(NamedTuple):
    """Consecutive documents of a part of the text. Its two numbers seed its random choices, so that
    its rows are the same wherever it is encoded.
    """

    part: int
    number: int  # within the part
    documents: list[str]


class Encoded(NamedTuple):
    """Rows of a block, concatenated."""

    part: int
    documents: int
    tokens: Ints
    lengths: Ints  # of each row
    first_segments: Ints  # length of segment 0 in each row, special tokens included


def blocks_of(parts: Iterable[Iterable[str]]) -> Iterator[Block]:
    """Yield the documents of all parts in blocks of about a million characters."""
    for part, documents in enumerate(parts):
        number, block, size = 0, list[str](), 0
        for document in documents:
            block.append(document)
            size += len(document)
            if size >= _BLOCK_CHARACTERS:
                yield Block(part, number, block)
                number, block, size = number + 1, [], 0
        if block:
            yield Block(part, number, block)


@dataclass(frozen=True)
class Encoder:
    """Encoder of text as rows, which depend only on part and number of the block, and its text.

    It is a data set whose indices are blocks, for the processes of a ``DataLoader``. Source of the
    rows: google electra, build_pretraining_dataset.py.
    """

    tokenizer: str  # of the library `tokenizers`, as JSON
    cls_id: int
    sep_id: int
    max_length_tokens: int

    @classmethod
    def of(cls, tokenizer: Any, max_length_tokens: int) -> Encoder:
        """Return an encoder with the tokenizer of ``transformers``, untruncating."""
        ids = int(tokenizer.cls_token_id), int(tokenizer.sep_token_id)
        return cls(tokenizer.backend_tokenizer.to_str(), *ids, max_length_tokens)

    def __getitem__(self, block: Block) -> Encoded:
        """Return the rows of a block, in a worker, which has one core."""
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        return self.encode(block)

    def encode(self, block: Block) -> Encoded:
        """Return the rows of a block; no row holds text of two documents."""
        split = [
            [part for part in _SENTENCE_END.split(text) if part.strip()] for text in block.documents
        ]
        flat = list(chain.from_iterable(split))
        encodings = _tokenizer(self.tokenizer).encode_batch_fast(flat, add_special_tokens=False)
        encoded: Iterator[TokenIds] = (array("i", encoding.ids) for encoding in encodings)
        rng = np.random.default_rng((0, block.number, block.part))
        rows: list[TokenIds] = []
        firsts: list[int] = []
        for sentences in split:
            for row, first in self.two_segments(list(islice(encoded, len(sentences))), rng):
                rows.append(row)
                firsts.append(first)
        return Encoded(
            part=block.part,
            documents=len(block.documents),
            tokens=np.frombuffer(b"".join(rows), dtype=np.int32),
            lengths=np.array([len(row) for row in rows], dtype=np.int32),
            first_segments=np.array(firsts, dtype=np.int32),
        )

    def two_segments(
        self, sentences: Iterable[Sequence[int]], rng: np.random.Generator
    ) -> Iterator[tuple[TokenIds, int]]:
        """Yield rows ``([CLS] s1 [SEP] (s2 [SEP]), length of segment 0)`` from the sentences of one
        document. Segments are contiguous text; its tail makes a last, shorter row.
        """
        waiting: list[Sequence[int]] = []
        length, target = 0, self.max_length_tokens
        for sentence in filter(None, sentences):
            waiting.append(sentence)
            length += len(sentence)
            if length >= target:
                yield self._row(waiting, target, rng)
                waiting, length = [], 0
                short = rng.random() < _SHORT_FRACTION
                longest = self.max_length_tokens
                target = int(rng.integers(5, longest)) if short else longest
        if waiting:
            yield self._row(waiting, target, rng)

    def _row(
        self, sentences: list[Sequence[int]], target: int, rng: np.random.Generator
    ) -> tuple[TokenIds, int]:
        single = rng.random() < _SINGLE_SEGMENT_FRACTION
        first_target = 100_000 if single else (target - 3) // 2
        first, second = array("i"), array("i")
        for sentence in sentences:
            fits = len(first) + len(sentence) < first_target
            # The released code puts a later sentence that fits back into the first segment; then
            # the text would not be contiguous. One that straddles the target goes to either.
            if not first or (
                not second and (fits or (len(first) < first_target and rng.random() < 0.5))
            ):
                first.extend(sentence)
            else:
                second.extend(sentence)
        first = first[: self.max_length_tokens - 2]
        second = second[: max(0, self.max_length_tokens - len(first) - 3)]
        row = array("i", [self.cls_id]) + first
        row.append(self.sep_id)
        if second:
            row += second
            row.append(self.sep_id)
        return row, len(first) + 2


@lru_cache(maxsize=2)
def _tokenizer(as_json: str) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(as_json)
    tokenizer.no_truncation()  # limits of an earlier call are saved with it
    tokenizer.no_padding()
    return tokenizer


Encoding: TypeAlias = Callable[..., Iterator[Encoded]]
"""``encoded_blocks``, or a function of the same signature and results."""


def encoded_blocks(
    blocks: Iterator[Block], encoder: Encoder, *, processes: int | None = None
) -> Iterator[Encoded]:
    """Yield the rows of each block in order, independent of ``processes``.

    ``processes=None`` uses every core that this process may use. A few blocks are encoded in this
    process. At most two blocks a process are in memory. Raises ``ResourceError`` if a process dies.
    """
    first = list(islice(blocks, _MIN_BLOCKS_FOR_PROCESSES))
    blocks = chain(first, blocks)
    count = usable_cores() if processes is None else processes
    if count <= 1 or len(first) < _MIN_BLOCKS_FOR_PROCESSES:
        yield from map(encoder.encode, blocks)
        return
    from torch.utils.data import DataLoader

    # Its worker processes end with this one and answer in order; a block is what they "sample".
    data_set: Any = encoder
    options: dict[str, Any] = {"sampler": blocks, "batch_size": None}
    options["collate_fn"] = Encoded._make  # the rows as they are, no tensors of them
    try:
        yield from DataLoader(data_set, num_workers=count, **options)
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise ResourceError(
            f"A tokenising process ended early: {error}\n"
            "  fix: see its own message above; without one, it was probably killed for lack of "
            "memory: use fewer processes"
        ) from error
