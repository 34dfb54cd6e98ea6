"""Build the shards of a corpus from raw text, on all cores or machines.

Shards are written to a hidden directory beside the corpus, which is renamed when complete; in an
object store, which knows no rename, the manifest is written last. A build that stopped restarts.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from road_ray.data.corpus.encode_documents import Encoded, Encoder, blocks_of
from road_ray.data.corpus.memory_mapped_corpus import (
    FORMAT,
    MANIFEST,
    Corpus,
    DamagedCorpus,
    manifest_digest,
    open_corpus,
    tokenizer_digest,
)
from road_ray.data.corpus.parallel_encoding import Encoding, encoded_blocks
from road_ray.data.corpus.shard_cache import stored_manifest
from road_ray.data.tokenizer import special_ids
from road_ray.errors import DataError, ResourceError
from road_ray.system.remote_files import Storage
from road_ray.system.staging import is_abandoned, staged_beside

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_log = logging.getLogger(__name__)
_ROWS_PER_SHARD = 50_000
_SCHEMA = pa.schema([("tokens", pa.large_list(pa.int32())), ("first_segment", pa.int32())])
_LOG_EVERY_SECONDS = 30.0


def build_corpus(
    parts: Sequence[Iterable[str]],
    directory: Path,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
    seed: int = 0,
    source: str = "",
    processes: int | None = None,
    encoding: Encoding = encoded_blocks,
    shuffled_shards: int | None = None,
) -> Corpus:
    """Return the opened corpus in ``directory``; tokenise and write it if needed.

    A complete directory of the same recipe is reused, a damaged one is rebuilt. Each of ``parts``
    yields documents, which never share a row. ``encoding`` encodes them in ``processes`` processes,
    whose number does not change the rows. Raises ``DataError`` for a text without rows.
    """
    recipe = _recipe(tokenizer, max_length_tokens, seed, source)
    if _is_built(directory, recipe):
        return open_corpus(directory, shuffled_shards)
    encoder = Encoder.of(tokenizer, max_length_tokens=max_length_tokens, seed=seed)
    for left in directory.parent.glob(f".{directory.name}.tmp-*"):
        if is_abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
    staging = staged_beside(directory)

    def write(name: str, content: Any) -> None:
        (staging / name).write_bytes(content)

    try:
        staging.mkdir(parents=True)
        _log_start(recipe, directory)
        _write_shards(encoding(blocks_of(parts), encoder, processes=processes), recipe, write)
        if not _is_built(directory, recipe):  # else another process was faster
            shutil.rmtree(directory, ignore_errors=True)
            os.rename(staging, directory)
    except OSError as error:
        raise ResourceError(
            f"{directory}: the corpus cannot be written: {error}\n"
            "  fix: free space there, make it writable, or name another directory"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return open_corpus(directory, shuffled_shards)


def build_stored_corpus(
    parts: Sequence[Iterable[str]],
    storage: Storage,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
    seed: int = 0,
    source: str = "",
    processes: int | None = None,
    encoding: Encoding = encoded_blocks,
) -> None:
    """Write the corpus to an object store unless it exists there; otherwise like ``build_corpus``.

    Two builders write the same bytes to the same names, so they need no lock.
    """
    recipe = _recipe(tokenizer, max_length_tokens, seed, source)
    try:
        if stored_manifest(storage) is not None:
            return
    except DamagedCorpus as error:
        _log.warning("%s: the corpus is built again", str(error).splitlines()[0])
        storage.delete(f"{storage.base}/{MANIFEST}")
    _log_start(recipe, storage)
    encoder = Encoder.of(tokenizer, max_length_tokens=max_length_tokens, seed=seed)
    encoded = encoding(blocks_of(parts), encoder, processes=processes)
    _write_shards(encoded, recipe, lambda name, data: storage.write(f"{storage.base}/{name}", data))


def _recipe(
    tokenizer: PreTrainedTokenizerFast, max_length_tokens: int, seed: int, source: str
) -> dict[str, Any]:
    """Return the settings that determine the rows of a corpus."""
    special_ids(tokenizer)  # raises before hours of tokenising
    return {
        "format": FORMAT,
        "tokenizer": tokenizer_digest(tokenizer),
        "max_length_tokens": max_length_tokens,
        "seed": seed,
        "source": source,
    }


def _log_start(recipe: dict[str, Any], destination: Path | Storage) -> None:
    _log.info(
        "%s: cutting it into rows of %d tokens, once; stored in %s",
        recipe["source"].split(", ")[0] or "the corpus", recipe["max_length_tokens"], destination,
    )  # fmt: skip


def _write_shards(
    encoded: Iterator[Encoded], recipe: dict[str, Any], write: Callable[[str, Any], None]
) -> None:
    """Write the shards of all parts, then the manifest. A shard has rows of one part only."""
    total = dict.fromkeys(("rows", "tokens", "documents"), 0)
    longest, largest_id = 0, 0
    sha256: dict[str, str] = {}
    sizes: dict[str, tuple[int, int]] = {}  # rows and bytes of each shard
    logged_at = time.monotonic()
    for part, blocks in groupby(encoded, key=lambda block: block.part):
        for number, shard in enumerate(_shards(blocks)):
            name, content = f"shard-{part:05d}-{number:05d}.arrow", _arrow(shard)
            write(name, content)
            sha256[name] = hashlib.sha256(content).hexdigest()
            sizes[name] = len(shard.lengths), content.size
            total["rows"] += len(shard.lengths)
            total["tokens"] += len(shard.tokens)
            total["documents"] += shard.documents
            longest = max(longest, int(shard.lengths.max()))
            largest_id = max(largest_id, int(shard.tokens.max()))
            if time.monotonic() - logged_at > _LOG_EVERY_SECONDS:
                _log.info("  %s rows so far", f"{total['rows']:,}")
                logged_at = time.monotonic()
    if not sizes:
        raise DataError(
            f"{recipe['source'] or 'the corpus'}: 0 rows of text\n"
            "  fix: name files with text (parquet column `text`, JSONL key `text`, plain text)"
        )
    manifest = recipe | total
    manifest |= {"shards": len(sizes), "mean_length": round(total["tokens"] / total["rows"], 2)}
    manifest |= {"longest": longest, "largest_id": largest_id, "sha256": sha256, "sizes": sizes}
    manifest |= {"digest": manifest_digest(manifest)}
    write(MANIFEST, f"{json.dumps(manifest, indent=1)}\n".encode())


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


def _arrow(shard: Encoded) -> pa.Buffer:
    edges = np.concatenate([[0], np.cumsum(shard.lengths, dtype=np.int64)])
    column = pa.LargeListArray.from_arrays(pa.array(edges), pa.array(shard.tokens))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _SCHEMA) as writer:
        columns = [column, pa.array(shard.first_segments)]
        writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
    return sink.getvalue()


def _is_built(directory: Path, recipe: dict[str, Any]) -> bool:
    """Return True for an undamaged corpus of that recipe. Raises ``DataError`` for a corpus of
    another recipe and for other files.
    """
    names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    ours = all(name == MANIFEST or name.startswith("shard-") for name in names)
    if directory.exists() and not (directory.is_dir() and ours):
        raise DataError(
            f"{directory} is in the way: no built corpus, and not an empty directory\n"
            "  fix: name another directory; this one was left as it is"
        )
    if not names:
        return False
    try:
        manifest = open_corpus(directory).manifest
    except DamagedCorpus as error:
        _log.warning("%s: the corpus is built again", str(error).splitlines()[0])
        return False
    if differences := [
        f"  {key}: there {manifest.get(key)}, asked {value}\n"
        for key, value in recipe.items()
        if manifest.get(key) != value
    ]:
        raise DataError(
            f"{directory} holds a corpus of another recipe:\n{''.join(differences)}"
            "  fix: name another directory, or delete that one; it was left as it is"
        )
    return True
