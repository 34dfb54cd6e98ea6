"""Build the shards of a corpus from raw text, on all cores or machines.

Documents are encoded in blocks as rows of one or two segments, as in ELECTRA's pre-training, in
order. The manifest is written last; a directory or address without one is no corpus, and a build
that stopped restarts.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain, groupby, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from road_ray.data.corpus.memory_mapped_corpus import (
    FORMAT,
    MANIFEST,
    manifest_digest,
    tokenizer_digest,
)
from road_ray.data.tokenizer import special_ids
from road_ray.errors import DataError, ResourceError
from road_ray.system.files import is_abandoned, write_atomic
from road_ray.system.operating_system import usable_cores
from road_ray.system.remote_files import Storage

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_log = logging.getLogger(__name__)
_ROWS_PER_SHARD = 50_000
# `first_segment` is the length of segment 0 of a row, special tokens included.
_SCHEMA = pa.schema([("tokens", pa.large_list(pa.int32())), ("first_segment", pa.int32())])
_LOG_EVERY_SECONDS = 30.0
TokenIds: TypeAlias = "array[int]"  # of 32 bits

# Shares of rows with one segment, and of rows that aim at a random shorter length.
# Source: google electra, build_pretraining_dataset.py.
_SINGLE_SEGMENT_FRACTION = 0.1
_SHORT_FRACTION = 0.05
_BLOCK_CHARACTERS = 1 << 20  # about a second of a core
# A segment ends with a sentence where it can, so paragraphs are split first (our choice); Chinese
# and Japanese have no space behind a sentence.
_SENTENCE_END = re.compile(r"\n+|(?<=[.!?؟।])\s+|(?<=[。！？])")  # noqa: RUF001
_WORD = re.compile(r"[a-z0-9]+|[^a-z0-9\s]")  # of BERT's pre-tokenizer, in lower ASCII
_PLAIN = re.compile(r"[\t\n\r -~]*")
_MOST_WORDS = 1 << 19  # that are kept: some 100 MB
_MIN_BLOCKS_FOR_PROCESSES = 4  # starting processes takes as long as encoding about two blocks


class Block(NamedTuple):
    """Consecutive documents of a part of the text. Its two numbers seed its random choices, so that
    its rows are the same wherever it is encoded.
    """

    part: int
    number: int  # within the part
    documents: list[str]


class Encoded(NamedTuple):
    """Rows of a block, in the columns of a shard."""

    part: int
    documents: int
    rows: pa.RecordBatch


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


class Words(dict[str, TokenIds]):
    """Token ids of words, each asked of the tokenizer once: a build is twice as fast with them.

    It serves texts on which BERT's uncased tokenizer does nothing but lower them and split them at
    spaces and around punctuation: printable ASCII without a special token. It serves no other
    tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        normalizer, added = tokenizer.normalizer, tokenizer.get_added_tokens_decoder().values()
        is_bert = isinstance(normalizer, BertNormalizer) and normalizer.lowercase
        self._serves = is_bert and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
        self._special = re.compile("|".join(re.escape(token.content) for token in added) or "$.")
        self._tokenizer = tokenizer

    def __missing__(self, word: str) -> TokenIds:
        if len(self) >= _MOST_WORDS:
            self.clear()
        ids = self[word] = array("i", self._tokenizer.encode(word, add_special_tokens=False).ids)
        return ids

    def ids_of(self, text: str) -> TokenIds | None:
        """Return the token ids of a text, None if it must be given to the tokenizer."""
        if not self._serves or not _PLAIN.fullmatch(text) or self._special.search(text):
            return None
        return array("i", chain.from_iterable(map(self.__getitem__, _WORD.findall(text.lower()))))


@dataclass(frozen=True)
class Encoder:
    """Encoder of text as rows, which depend only on part and number of the block, and its text.

    It is a data set whose indices are blocks, for the processes of a ``DataLoader``. Source of the
    rows: google electra, build_pretraining_dataset.py.
    """

    tokenizer: Any  # of the library `tokenizers`
    words: Words
    cls_id: int
    sep_id: int
    max_length_tokens: int

    @classmethod
    def of(cls, tokenizer: Any, max_length_tokens: int) -> Encoder:
        """Return an encoder with the tokenizer of ``transformers``, untruncating."""
        ids = int(tokenizer.cls_token_id), int(tokenizer.sep_token_id)
        own = deepcopy(tokenizer.backend_tokenizer)
        own.no_truncation()  # limits of an earlier call are copied with it
        own.no_padding()
        return cls(own, Words(own), *ids, max_length_tokens)

    def __getitem__(self, block: Block) -> Encoded:
        """Return the rows of a block, in a worker, which has one core."""
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        return self.encode(block)

    def encode(self, block: Block) -> Encoded:
        """Return the rows of a block; no row holds text of two documents."""
        split = [[part for part in _sentences(text) if part.strip()] for text in block.documents]
        flat = list(chain.from_iterable(split))
        known = list(map(self.words.ids_of, flat))
        others = [text for text, ids in zip(flat, known, strict=True) if ids is None]
        encodings = iter(self.tokenizer.encode_batch_fast(others, add_special_tokens=False))
        encoded = (array("i", next(encodings).ids) if ids is None else ids for ids in known)
        rng = np.random.default_rng((0, block.number, block.part))
        rows: list[TokenIds] = []
        firsts: list[int] = []
        for sentences in split:
            for row, first in self.two_segments(list(islice(encoded, len(sentences))), rng):
                rows.append(row)
                firsts.append(first)
        edges = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        tokens = np.frombuffer(b"".join(rows), dtype=np.int32)
        column = pa.LargeListArray.from_arrays(pa.array(edges), pa.array(tokens))
        made = pa.record_batch([column, pa.array(firsts, pa.int32())], schema=_SCHEMA)
        return Encoded(block.part, len(block.documents), made)

    def two_segments(
        self, sentences: Iterable[Sequence[int]], rng: np.random.Generator
    ) -> Iterator[tuple[TokenIds, int]]:
        """Yield rows ``([CLS] s1 [SEP] (s2 [SEP]), length of segment 0)`` from the sentences of one
        document. Segments are contiguous text; its tail makes a last, shorter row.

        The released code discards what a row has no room for, up to a sentence or a paragraph; here
        the next row begins with it.
        """
        waiting: list[Sequence[int]] = []
        length, target = 0, self.max_length_tokens
        for sentence in filter(None, sentences):
            waiting.append(sentence)
            length += len(sentence)
            while length >= target:
                row, first, rest = self._row(waiting, target, rng)
                yield row, first
                waiting, length = [rest] if rest else [], len(rest)
                short = rng.random() < _SHORT_FRACTION
                longest = self.max_length_tokens
                target = int(rng.integers(5, longest)) if short else longest
        while waiting:
            row, first, rest = self._row(waiting, target, rng)
            yield row, first
            waiting = [rest] if rest else []

    def _row(
        self, sentences: list[Sequence[int]], target: int, rng: np.random.Generator
    ) -> tuple[TokenIds, int, TokenIds]:
        """Return a row, the length of its segment 0, and the tokens that it has no room for."""
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
        end = self.max_length_tokens - 2
        other_end = max(0, end - len(first) - 1)
        rest = first[end:] + second[other_end:]
        first, second = first[:end], second[:other_end]
        row = array("i", [self.cls_id]) + first
        row.append(self.sep_id)
        if second:
            row += second
            row.append(self.sep_id)
        return row, len(first) + 2, rest


def _sentences(text: str) -> list[str]:
    """Return the sentences, each with the space before it, which byte-level tokens begin with."""
    bounds = [0, *(end.start() for end in _SENTENCE_END.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


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


def build_corpus(
    parts: Sequence[Iterable[str]],
    place: Path | Storage,
    tokenizer: PreTrainedTokenizerFast,
    max_length_tokens: int,
    source: str,
    processes: int | None = None,
    encoding: Encoding = encoded_blocks,
) -> None:
    """Write a corpus to a directory or an object store.

    Each of ``parts`` yields documents; a shard has rows of one part only. ``encoding`` encodes them
    in ``processes`` processes, whose number does not change the rows. The manifest is written last:
    what a build that stopped has left is no corpus. Two builders write the same bytes to the same
    names, so they need no lock. Raises ``DataError`` for a text without rows.
    """
    special_ids(tokenizer)  # raises before hours of tokenising
    name = source.split(", ")[0]
    _log.info(
        "%s: cutting it into rows of %d tokens, once; stored in %s", name, max_length_tokens, place
    )

    def write(name: str, content: Any) -> None:
        if isinstance(place, Storage):
            place.write(f"{place.base}/{name}", content)
        else:  # beside its place, then renamed: another builder's may be mapped there
            write_atomic(place / name, content)

    if isinstance(place, Path):
        for left in filter(is_abandoned, place.glob(".*")):  # part of a file, of a killed build
            left.unlink(missing_ok=True)
    encoder = Encoder.of(tokenizer, max_length_tokens)
    sizes = _write_shards(encoding(blocks_of(parts), encoder, processes=processes), write)
    if not sizes["rows"]:
        raise DataError(
            f"{source}: 0 rows of text\n"
            "  fix: name files with text (parquet column `text`, JSONL key `text`, plain text)"
        )
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "tokenizer": tokenizer_digest(tokenizer),
        "max_length_tokens": max_length_tokens,
        "seed": 0,  # of the random choices of `Encoder`
        "source": source,
        "mean_length": round(sizes["tokens"] / sizes["rows"], 2),
        **sizes,
    }
    manifest["digest"] = manifest_digest(manifest)
    write(MANIFEST, f"{json.dumps(manifest, indent=1)}\n".encode())


def is_built(place: Path | Storage) -> bool:
    """Return True if there is a manifest at a directory or an address."""
    if isinstance(place, Storage):
        return place.find(f"{place.base}/{MANIFEST}") is not None
    return (place / MANIFEST).exists()


def _write_shards(encoded: Iterator[Encoded], write: Callable[[str, Any], None]) -> dict[str, Any]:
    """Write the shards of all parts; return their part of the manifest."""
    total = dict.fromkeys(("rows", "tokens", "documents", "longest", "largest_id"), 0)
    sha256: dict[str, str] = {}
    sizes: dict[str, tuple[int, int]] = {}  # rows and bytes of each shard
    logged_at = time.monotonic()

    def counted() -> Iterator[Encoded]:
        for block in encoded:
            total["documents"] += block.documents
            yield block

    for part, blocks in groupby(counted(), key=lambda block: block.part):
        for number, shard in enumerate(_shards(block.rows for block in blocks)):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, _SCHEMA) as writer:
                writer.write_batch(shard)
            name, content = f"shard-{part:05d}-{number:05d}.arrow", sink.getvalue()
            write(name, content)
            sha256[name] = hashlib.sha256(content).hexdigest()
            sizes[name] = shard.num_rows, content.size
            column = shard.column("tokens")
            tokens, longest = column.flatten(), pc.max(pc.list_value_length(column)).as_py()
            total["rows"] += shard.num_rows
            total["tokens"] += len(tokens)
            total["longest"] = max(total["longest"], longest)
            total["largest_id"] = max(total["largest_id"], pc.max(tokens).as_py())
            if time.monotonic() - logged_at > _LOG_EVERY_SECONDS:
                _log.info("  %s rows so far", f"{total['rows']:,}")
                logged_at = time.monotonic()
    return {**total, "shards": len(sizes), "sha256": sha256, "sizes": sizes}


def _shards(blocks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part in shards of equal size; the last has the remaining rows."""
    waiting = _SCHEMA.empty_table()
    for block in blocks:
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([block])])
        while waiting.num_rows >= _ROWS_PER_SHARD:
            yield pa.concat_batches(waiting.slice(0, _ROWS_PER_SHARD).to_batches())
            waiting = waiting.slice(_ROWS_PER_SHARD)
    if waiting.num_rows:
        yield pa.concat_batches(waiting.to_batches())
