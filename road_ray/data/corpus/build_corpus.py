"""Build the shards of a corpus from raw text, on all cores or machines.

The manifest is written last; a directory or address without one is no corpus, and a build that
stopped restarts.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from road_ray.data.corpus.encode_documents import (
    Encoded,
    Encoder,
    Encoding,
    blocks_of,
    encoded_blocks,
)
from road_ray.data.corpus.memory_mapped_corpus import (
    FORMAT,
    MANIFEST,
    manifest_digest,
    tokenizer_digest,
)
from road_ray.data.tokenizer import special_ids
from road_ray.errors import DataError
from road_ray.system.files import is_abandoned, write_bytes_atomic
from road_ray.system.remote_files import Storage

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_log = logging.getLogger(__name__)
_ROWS_PER_SHARD = 50_000
_SCHEMA = pa.schema([("tokens", pa.large_list(pa.int32())), ("first_segment", pa.int32())])
_LOG_EVERY_SECONDS = 30.0


def build_corpus(
    parts: Sequence[Iterable[str]],
    place: Path | Storage,
    tokenizer: PreTrainedTokenizerFast,
    *,
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
            write_bytes_atomic(place / name, content)

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
    for part, blocks in groupby(encoded, key=lambda block: block.part):
        for number, shard in enumerate(_shards(blocks)):
            edges = np.concatenate([[0], np.cumsum(shard.lengths, dtype=np.int64)])
            tokens = pa.LargeListArray.from_arrays(pa.array(edges), pa.array(shard.tokens))
            columns = [tokens, pa.array(shard.first_segments)]
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, _SCHEMA) as writer:
                writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
            name, content = f"shard-{part:05d}-{number:05d}.arrow", sink.getvalue()
            write(name, content)
            sha256[name] = hashlib.sha256(content).hexdigest()
            sizes[name] = len(shard.lengths), content.size
            total["rows"] += len(shard.lengths)
            total["tokens"] += len(shard.tokens)
            total["documents"] += shard.documents
            total["longest"] = max(total["longest"], int(shard.lengths.max()))
            total["largest_id"] = max(total["largest_id"], int(shard.tokens.max()))
            if time.monotonic() - logged_at > _LOG_EVERY_SECONDS:
                _log.info("  %s rows so far", f"{total['rows']:,}")
                logged_at = time.monotonic()
    return {**total, "shards": len(sizes), "sha256": sha256, "sizes": sizes}


def _shards(blocks: Iterable[Encoded]) -> Iterator[Encoded]:
    """Yield the rows of a part in shards of equal size; the last has the remaining rows."""
    waiting: list[Encoded] = []
    count = 0
    for block in blocks:
        waiting.append(block)
        count += len(block.lengths)
        while count >= _ROWS_PER_SHARD:
            shard, rest = _split(waiting, _ROWS_PER_SHARD)
            yield shard
            waiting, count = [rest], len(rest.lengths)
    if count:
        yield _split(waiting, count)[0]


def _split(blocks: Sequence[Encoded], rows: int) -> tuple[Encoded, Encoded]:
    """Return the first rows of several blocks, and the rest. Documents count with the first."""
    part, documents = blocks[0].part, sum(block.documents for block in blocks)
    tokens, lengths, firsts = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("tokens", "lengths", "first_segments")
    )
    end = int(lengths[:rows].sum(dtype=np.int64))
    return (
        Encoded(part, documents, tokens[:end], lengths[:rows], firsts[:rows]),
        Encoded(part, 0, tokens[end:], lengths[rows:], firsts[rows:]),
    )
