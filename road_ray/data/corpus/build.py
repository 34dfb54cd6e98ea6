"""Build the shards of a corpus from raw text, on all cores and resumable.

Shards are written to a hidden directory beside the corpus, which is renamed when complete.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from road_ray.data.corpus.dataset import (
    FORMAT,
    MANIFEST,
    Corpus,
    DamagedCorpus,
    manifest_digest,
    open_corpus,
    tokenizer_digest,
)
from road_ray.data.corpus.encode import Encoded, Encoder
from road_ray.data.corpus.parallel import Encoding, encoded_blocks
from road_ray.data.tokenizer import special_ids
from road_ray.errors import DataError, ResourceError
from road_ray.system.file_hashes import sha256_of
from road_ray.system.file_lock import lock_exclusively

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_log = logging.getLogger(__name__)
_ROWS_PER_SHARD = 50_000
_PROGRESS = "PROGRESS.json"
_LOCK = "lock"
_LOG_EVERY_SECONDS = 30.0
_SCHEMA = pa.schema([("tokens", pa.large_list(pa.int32())), ("first_segment", pa.int32())])


@dataclass
class _Progress:
    """Shards on disk, and the position in the text where the next one begins."""

    shards: int = 0
    rows: int = 0
    tokens: int = 0
    documents: int = 0  # of the blocks before `block`
    block: int = 0
    rows_of_block: int = 0  # of `block`, already written
    longest: int = 0
    largest_id: int = 0
    sha256: dict[str, str] = field(default_factory=dict)  # of every shard, by its name


@dataclass
class _Pending:
    """Rows not yet written to a shard."""

    blocks: list[tuple[int, Encoded]] = field(default_factory=list)
    skipped: int = 0  # rows at the beginning of the first block, written before

    def __len__(self) -> int:
        return sum(len(block.lengths) for _, block in self.blocks) - self.skipped


def build_corpus(
    documents: Iterable[str],
    directory: Path,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
    seed: int = 0,
    source: str = "",
    processes: int | None = None,
    encoding: Encoding = encoded_blocks,
) -> Corpus:
    """Return the opened corpus in ``directory``; tokenise and write it if needed.

    A complete directory of the same recipe is reused, a damaged one is rebuilt, an interrupted one
    continues after its last whole shard. Documents never share a row. ``encoding`` makes the rows
    with that many ``processes``; the rows do not depend on them. Raises ``DataError`` for a text
    without rows.
    """
    recipe = {
        "format": FORMAT,
        "tokenizer": tokenizer_digest(tokenizer),
        "max_length_tokens": max_length_tokens,
        "seed": seed,
        "source": source,
    }
    if (built := _built(directory, recipe)) is not None:
        return built
    special_ids(tokenizer)  # raises before hours of tokenising
    encoder = Encoder.of(tokenizer, max_length_tokens=max_length_tokens, seed=seed)
    try:
        with _staging(directory, recipe) as (staging, progress):
            _log.info(
                "%s: cutting it into rows of %d tokens, once; kept in %s",
                source.split(", ")[0] or "the corpus", max_length_tokens, directory,
            )  # fmt: skip
            encode = partial(encoding, documents, encoder, processes=processes)
            _write_shards(encode, staging, progress, recipe)
            if progress.rows == 0:
                raise DataError(
                    f"{source or 'the corpus'}: 0 rows of text\n"
                    "  fix: name files with text (parquet column `text`, JSONL key `text`, plain "
                    "text)"
                )
            (staging / MANIFEST).write_text(
                json.dumps(_manifest(recipe, progress), indent=1) + "\n"
            )
            _put_in_place(staging, directory, recipe)
            # Only now: without them another process would begin anew and delete the shards.
            (directory / _PROGRESS).unlink(missing_ok=True)
            (directory / _LOCK).unlink(missing_ok=True)
    except OSError as error:
        if (built := _built(directory, recipe)) is not None:
            return built  # another process was faster
        raise ResourceError(
            f"{directory}: the corpus cannot be written: {error}\n"
            "  fix: free space there, make it writable, or name another directory\n"
            "  kept: whole shards, which the same command goes on with"
        ) from error
    return open_corpus(directory)


def _manifest(recipe: dict[str, Any], progress: _Progress) -> dict[str, Any]:
    counts = {name: getattr(progress, name) for name in ("rows", "tokens", "documents", "shards")}
    mean = round(progress.tokens / progress.rows, 2)
    content = recipe | counts | {"mean_length": mean, "longest": progress.longest}
    content |= {"largest_id": progress.largest_id, "sha256": progress.sha256}
    return content | {"digest": manifest_digest(content)}


def _built(directory: Path, recipe: dict[str, Any]) -> Corpus | None:
    """Return the existing corpus of that recipe, None if there is none or it is damaged."""
    if directory.exists() and not (directory.is_dir() and _is_ours(directory)):
        raise DataError(
            f"{directory} is in the way: no built corpus, and not an empty directory\n"
            "  fix: name another directory; this one was left as it is"
        )
    if not directory.exists() or not any(directory.iterdir()):
        return None
    try:
        corpus = open_corpus(directory)
    except DamagedCorpus as error:
        _log.warning("%s: the corpus is built again", str(error).splitlines()[0])
        return None
    there = {key: corpus.manifest.get(key) for key in recipe}
    if there != recipe:
        odd = [
            f"  {k}: there {there[k]}, asked {recipe[k]}\n" for k in recipe if recipe[k] != there[k]
        ]
        raise DataError(
            f"{directory} holds a corpus of another recipe:\n{''.join(odd)}"
            "  fix: name another directory, or delete that one; it was left as it is"
        )
    return corpus


def _is_ours(directory: Path) -> bool:
    """Return True if the directory contains only files of a corpus."""
    names = {path.name for path in directory.iterdir()} - {MANIFEST, _PROGRESS, _LOCK}
    return all(name.startswith("shard-") and name.endswith(".arrow") for name in names)


def _put_in_place(staging: Path, directory: Path, recipe: dict[str, Any]) -> None:
    """Rename the complete corpus to its final name, replacing a damaged one."""
    damaged = directory.is_dir() and any(directory.iterdir()) and _built(directory, recipe) is None
    aside = staging.with_name(f".{directory.name}.damaged-{os.getpid()}")
    if damaged:
        os.rename(directory, aside)
    os.rename(staging, directory)
    if damaged:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _staging(directory: Path, recipe: dict[str, Any]) -> Iterator[tuple[Path, _Progress]]:
    """Yield the directory to write shards to and the progress of an earlier attempt.

    It remains if it has a shard and no other process was faster. While another process builds the
    same corpus, it is a private directory.
    """
    place, before = directory.with_name(f".{directory.name}.partial"), _stamp(directory)
    place.mkdir(parents=True, exist_ok=True)
    with (place / _LOCK).open("a+") as lock:
        if lock_exclusively(lock):
            place = directory.with_name(f".{directory.name}.tmp-{os.getpid()}")
            place.mkdir()
        progress = _earlier(place, recipe)
        try:
            yield place, progress
        finally:
            if _stamp(directory) not in (None, before) or not (place / _PROGRESS).is_file():
                shutil.rmtree(place, ignore_errors=True)


def _stamp(directory: Path) -> int | None:
    """Return a number that changes when another corpus takes this place."""
    manifest = directory / MANIFEST
    return manifest.stat().st_ino if manifest.is_file() else None


def _earlier(place: Path, recipe: dict[str, Any]) -> _Progress:
    try:
        found = json.loads((place / _PROGRESS).read_text(encoding="utf-8"))
        whole = found.pop("digest") == manifest_digest(found) and all(
            sha256_of(place / name) == sha256 for name, sha256 in found["sha256"].items()
        )
        if found.pop("recipe") == recipe and whole:
            progress = _Progress(**found)
            _log.info("going on after %d rows in %s", progress.rows, place)
            return progress
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # nothing yet, or nothing to resume
    for file in place.glob("shard-*"):
        file.unlink()
    (place / _PROGRESS).unlink(missing_ok=True)
    return _Progress()


def _write_shards(
    encode: Encoding, directory: Path, progress: _Progress, recipe: dict[str, Any]
) -> None:
    pending, logged_at = _Pending(skipped=progress.rows_of_block), time.monotonic()
    for numbered in encode(start=progress.block):
        pending.blocks.append(numbered)
        if time.monotonic() - logged_at > _LOG_EVERY_SECONDS:
            _log.info("  %s rows so far", f"{progress.rows + len(pending):,}")
            logged_at = time.monotonic()
        while len(pending) >= _ROWS_PER_SHARD:
            _write_shard(directory, pending, _ROWS_PER_SHARD, progress)
            content = vars(progress) | {"recipe": recipe}
            content |= {"digest": manifest_digest(content)}
            (directory / f"{_PROGRESS}.new").write_text(json.dumps(content))
            os.replace(directory / f"{_PROGRESS}.new", directory / _PROGRESS)
    if len(pending):
        _write_shard(directory, pending, len(pending), progress)
    progress.documents += sum(block.documents for _, block in pending.blocks)


def _write_shard(directory: Path, pending: _Pending, rows: int, progress: _Progress) -> None:
    """Write the first ``rows`` pending rows and remove them."""
    lengths = np.concatenate([block.lengths for _, block in pending.blocks])
    tokens = np.concatenate([block.tokens for _, block in pending.blocks])
    firsts = np.concatenate([block.first_segments for _, block in pending.blocks])
    taken = slice(pending.skipped, pending.skipped + rows)
    edges = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    first, last = int(edges[taken.start]), int(edges[taken.stop])
    column = pa.LargeListArray.from_arrays(
        pa.array(edges[taken.start : taken.stop + 1] - first), pa.array(tokens[first:last])
    )
    batch = pa.record_batch([column, pa.array(firsts[taken])], schema=_SCHEMA)
    path = directory / f"shard-{progress.shards:05d}.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
        writer.write_batch(batch)
    progress.sha256[path.name] = sha256_of(path)
    progress.largest_id = max(progress.largest_id, int(tokens[first:last].max()))
    progress.shards += 1
    progress.rows += rows
    progress.tokens += last - first
    progress.longest = max(progress.longest, int(lengths[taken].max()))
    pending.skipped += rows
    while pending.blocks and pending.skipped >= len(pending.blocks[0][1].lengths):
        number, block = pending.blocks.pop(0)
        pending.skipped -= len(block.lengths)
        progress.documents += block.documents
        progress.block = number + 1
    progress.rows_of_block = pending.skipped
