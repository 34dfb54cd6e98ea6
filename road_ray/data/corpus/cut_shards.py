"""Cut the encoded blocks of a corpus into shards, part by part.

One process reads a part. The numbers of part and block determine the rows; shards hold rows of one
part only, so any machine can write them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from road_ray.data.corpus.encode_documents import Encoded, text_digest
from road_ray.errors import DataError

_ROWS_PER_SHARD = 50_000
_BLOCK_CHARACTERS = 1 << 20
_SCHEMA = pa.schema([("tokens", pa.large_list(pa.int32())), ("first_segment", pa.int32())])


class BlockNumber(NamedTuple):
    """Place of a block of documents in a corpus."""

    part: int
    number: int  # within the part


@dataclass
class PartProgress:
    """Written shards of one part, and the position in its text where the next one begins."""

    part: int
    is_complete: bool = False
    rows: int = 0
    tokens: int = 0
    documents: int = 0  # of the blocks before `block`
    text: str = ""  # digest of these documents
    block: int = 0
    rows_of_block: int = 0  # of `block`, already written
    longest: int = 0
    largest_id: int = 0
    sha256: dict[str, str] = field(default_factory=dict)  # of every shard, by its name
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)  # its rows and bytes


@dataclass(frozen=True)
class PartWork:
    """One part to encode, from the end of an earlier attempt."""

    documents: Iterable[str]
    progress: PartProgress


class Shard(NamedTuple):
    """One shard to write, and the progress of its part afterwards. The content is None if the part
    ended with the previous shard.
    """

    name: str
    content: Any  # bytes or a buffer of Arrow, None
    progress: dict[str, Any]


def blocks(documents: Iterable[str]) -> Iterator[list[str]]:
    """Yield lists of documents of about a million characters; no block depends on later ones."""
    block: list[str] = []
    size = 0
    for document in documents:
        block.append(document)
        size += len(document)
        if size >= _BLOCK_CHARACTERS:
            yield block
            block, size = [], 0
    if block:
        yield block


def blocks_of(work: Iterable[PartWork]) -> Iterator[tuple[BlockNumber, list[str]]]:
    """Yield the blocks that are still to encode, part by part.

    Raises ``DataError`` if the text before them has changed since it was encoded.
    """
    for part in work:
        progress, text = part.progress, ""
        for number, documents in enumerate(blocks(part.documents)):
            if number >= progress.block:
                yield BlockNumber(progress.part, number), documents
                continue
            text = chained(text, text_digest(documents))
            if number + 1 == progress.block and text != progress.text:
                raise DataError(
                    f"part {progress.part} of the corpus: its first {progress.documents:,} "
                    "documents are others than those of the existing shards\n"
                    "  fix: restore the text; or delete the unfinished shards and build again"
                )


def chained(before: str, block: str) -> str:
    """Return the digest of the text before a block and of the block."""
    return hashlib.sha256(f"{before}{block}".encode()).hexdigest()


def cut(
    work: Sequence[PartWork], encoded: Iterator[tuple[BlockNumber, Encoded]]
) -> Iterator[Shard]:
    """Yield the shards of each part; ``encoded`` has the blocks of ``blocks_of(work)``."""
    ahead = next(encoded, None)
    for part in work:
        pending = _Pending(part.progress)
        while ahead is not None and ahead[0].part == part.progress.part:
            pending.add(ahead[0].number, ahead[1])
            ahead = None  # its memory is free before the next block is awaited
            while len(pending) >= _ROWS_PER_SHARD:
                yield pending.take(_ROWS_PER_SHARD)
            ahead = next(encoded, None)
        yield pending.finish()


class _Pending:
    """Rows of one part that are not yet in a shard."""

    def __init__(self, progress: PartProgress) -> None:
        self.progress = progress
        self.blocks: list[tuple[int, Encoded]] = []
        self.skipped = progress.rows_of_block  # rows of the first block, written before

    def __len__(self) -> int:
        return sum(len(block.lengths) for _, block in self.blocks) - self.skipped

    def add(self, number: int, block: Encoded) -> None:
        self.blocks.append((number, block))

    def take(self, rows: int) -> Shard:
        """Return the first ``rows`` as a shard and forget them."""
        lengths = np.concatenate([block.lengths for _, block in self.blocks])
        tokens = np.concatenate([block.tokens for _, block in self.blocks])
        firsts = np.concatenate([block.first_segments for _, block in self.blocks])
        taken = slice(self.skipped, self.skipped + rows)
        edges = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        first, last = int(edges[taken.start]), int(edges[taken.stop])
        column = pa.LargeListArray.from_arrays(
            pa.array(edges[taken.start : taken.stop + 1] - first), pa.array(tokens[first:last])
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, _SCHEMA) as writer:
            writer.write_batch(pa.record_batch([column, pa.array(firsts[taken])], schema=_SCHEMA))
        content, progress = sink.getvalue(), self.progress
        name = f"shard-{progress.part:05d}-{len(progress.sha256):05d}.arrow"
        progress.sha256[name] = hashlib.sha256(content).hexdigest()
        progress.sizes[name] = rows, content.size
        progress.largest_id = max(progress.largest_id, int(tokens[first:last].max()))
        progress.rows += rows
        progress.tokens += last - first
        progress.longest = max(progress.longest, int(lengths[taken].max()))
        self._forget(rows)
        return Shard(name, content, asdict(progress))

    def _forget(self, rows: int) -> None:
        progress = self.progress
        self.skipped += rows
        while self.blocks and self.skipped >= len(self.blocks[0][1].lengths):
            number, block = self.blocks.pop(0)
            self.skipped -= len(block.lengths)
            progress.documents += block.documents
            progress.text = chained(progress.text, block.text)
            progress.block = number + 1
        progress.rows_of_block = self.skipped

    def finish(self) -> Shard:
        """Return the last shard of the part."""
        self.progress.is_complete = True
        if len(self):
            return self.take(len(self))
        self._forget(0)
        return Shard("", None, asdict(self.progress))
