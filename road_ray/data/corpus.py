"""Raw text to two-segment blocks of token ids in memory-mapped Arrow shards.

A directory of shards is committed whole: the manifest is written last, and what has none is not a
corpus.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from road_ray.data.features import Ints, Longs
from road_ray.data.segments import two_segments
from road_ray.data.tokenizer import special_ids
from road_ray.errors import DataError, ResourceError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_ROWS_PER_SHARD = 50_000
_MANIFEST = "MANIFEST.json"
# A row takes whole sentences and drops what overhangs, so paragraphs are cut up first (our choice).
_SENTENCE_END = re.compile(r"\n+|(?<=[.!?])\s+")
_SCHEMA = pa.schema([("tokens", pa.large_list(pa.int32())), ("first_segment", pa.int32())])


@dataclass(frozen=True)
class Corpus:
    """Unpadded two-segment rows over memory-mapped shards, numbered through."""

    directory: Path
    tokens: tuple[Ints, ...]
    bounds: tuple[Longs, ...]
    first_segments: tuple[Ints, ...]
    starts: Longs  # [shards + 1] number of the first row of each shard
    manifest: dict[str, Any]

    def __len__(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def lengths(self) -> Longs:
        """Tokens in each row."""
        return np.concatenate([np.diff(bounds) for bounds in self.bounds])

    @cached_property
    def first_segment(self) -> Ints:
        """Length of segment 0 in each row, special tokens included."""
        return np.concatenate(self.first_segments)

    def row(self, index: int) -> Ints:
        """Token ids of one row, a view into the shard."""
        shard = int(np.searchsorted(self.starts, index, side="right")) - 1
        bounds = self.bounds[shard]
        local = index - int(self.starts[shard])
        return self.tokens[shard][bounds[local] : bounds[local + 1]]


def build_corpus(
    documents: Iterable[str],
    directory: Path,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
    seed: int = 0,
    source: str = "",
) -> Corpus:
    """The corpus below ``directory``, opened; tokenised, cut into rows and written when needed.

    An existing complete directory of the same recipe is reused. A document never shares a row with
    another. Raises ``DataError`` when the text gives no row.
    """
    recipe = {
        "tokenizer": tokenizer_digest(tokenizer),
        "max_length_tokens": max_length_tokens,
        "seed": seed,
        "source": source,
    }
    if (built := _built(directory, recipe)) is not None:
        return built
    staging = directory.with_name(f".{directory.name}.tmp-{os.getpid()}")
    shutil.rmtree(staging, ignore_errors=True)
    try:
        staging.mkdir(parents=True)
        counts = _write_shards(documents, staging, tokenizer, max_length_tokens, seed)
        if counts["rows"] == 0:
            raise DataError(
                f"{source or 'the corpus'}: 0 rows of text\n"
                "  fix: name files with text (parquet column `text`, JSONL key `text`, plain text)"
            )
        (staging / _MANIFEST).write_text(json.dumps(recipe | counts, indent=1) + "\n")
        os.rename(staging, directory)
    except OSError as error:
        if (built := _built(directory, recipe)) is not None:
            return built  # another process was faster
        raise ResourceError(
            f"{directory}: the corpus cannot be written: {error}\n"
            "  fix: free space there, make it writable, or name another directory\n"
            "  kept: nothing of it"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return open_corpus(directory)


def _built(directory: Path, recipe: dict[str, Any]) -> Corpus | None:
    """The corpus that is there, if it is of that recipe; None where there is nothing yet."""
    if not (directory / _MANIFEST).is_file():
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise DataError(
                f"{directory} is in the way: no built corpus, and not an empty directory\n"
                "  fix: name another directory; this one was left as it is"
            )
        return None
    corpus = open_corpus(directory)
    there = {key: corpus.manifest.get(key) for key in recipe}
    if there != recipe:
        raise DataError(
            f"{directory} holds a corpus of another recipe:\n  there: {there}\n  asked: {recipe}\n"
            "  fix: name another directory, or delete that one; it was left as it is"
        )
    return corpus


def _write_shards(
    documents: Iterable[str],
    directory: Path,
    tokenizer: PreTrainedTokenizerFast,
    max_length_tokens: int,
    seed: int,
) -> dict[str, int]:
    special_ids(tokenizer)  # names what is missing before hours of tokenising
    rng = np.random.default_rng(seed)
    rows: list[list[int]] = []
    firsts: list[int] = []
    counts = {"rows": 0, "tokens": 0, "documents": 0, "shards": 0}

    def flush() -> None:
        if not rows:
            return
        table = pa.record_batch(
            [pa.array(rows, type=_SCHEMA.field("tokens").type), pa.array(firsts, type=pa.int32())],
            schema=_SCHEMA,
        )
        path = directory / f"shard-{counts['shards']:05d}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
            writer.write_batch(table)
        counts["shards"] += 1
        rows.clear()
        firsts.clear()

    for sentences in _tokenised(documents, tokenizer):
        counts["documents"] += 1
        for row, first in two_segments(
            sentences,
            max_length_tokens=max_length_tokens,
            cls_id=int(tokenizer.cls_token_id),
            sep_id=int(tokenizer.sep_token_id),
            rng=rng,
        ):
            rows.append(row)
            firsts.append(first)
            counts["rows"] += 1
            counts["tokens"] += len(row)
            if len(rows) >= _ROWS_PER_SHARD:
                flush()
    flush()
    return counts


def _tokenised(
    documents: Iterable[str], tokenizer: PreTrainedTokenizerFast, documents_at_once: int = 64
) -> Iterator[list[list[int]]]:
    """Token ids of each sentence of each document, many documents to one call of the tokenizer."""
    backend = tokenizer.backend_tokenizer
    # An earlier call of the tokenizer may have left its limits behind.
    backend.no_truncation()
    backend.no_padding()
    source = iter(documents)
    while chunk := list(islice(source, documents_at_once)):
        documents_split = [
            [part for part in _SENTENCE_END.split(text) if part.strip()] for text in chunk
        ]
        flat = [sentence for document in documents_split for sentence in document]
        encoded = iter(backend.encode_batch_fast(flat, add_special_tokens=False))
        for document in documents_split:
            yield [next(encoded).ids for _ in document]


def open_corpus(directory: Path) -> Corpus:
    """The shards of a built corpus, memory-mapped.

    Raises ``DataError`` when there is none, or a shard is damaged or missing.
    """
    manifest = _manifest(directory)
    tokens, bounds, firsts = [], [], []
    for number in range(manifest["shards"]):
        path = directory / f"shard-{number:05d}.arrow"
        try:
            batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        except (OSError, pa.ArrowInvalid) as error:
            raise DataError(
                f"{path}: damaged or missing shard ({error})\n"
                f"  fix: delete {directory} and build the corpus again"
            ) from error
        column = batch.column(0)
        tokens.append(column.values.to_numpy())
        bounds.append(column.offsets.to_numpy())
        firsts.append(batch.column(1).to_numpy())
    starts = np.cumsum([0] + [len(shard) - 1 for shard in bounds])
    if int(starts[-1]) != manifest["rows"]:
        raise DataError(
            f"{directory}: {int(starts[-1])} rows, the manifest says {manifest['rows']}\n"
            "  fix: delete it and build the corpus again"
        )
    return Corpus(directory, tuple(tokens), tuple(bounds), tuple(firsts), starts, manifest)


def _manifest(directory: Path) -> dict[str, Any]:
    path = directory / _MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        manifest |= {name: int(manifest[name]) for name in ("shards", "rows")}
    except FileNotFoundError as error:
        raise DataError(
            f"{directory} is not a built corpus (no {_MANIFEST})\n  fix: run `road data corpus`"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: damaged ({error!r})\n  fix: delete {directory} and build the corpus again"
        ) from error
    return manifest


def tokenizer_digest(tokenizer: PreTrainedTokenizerFast) -> str:
    """sha256 of the vocabulary in order of its ids; equal digests read text alike (with equal
    normalisation).
    """
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    lowercase = str(getattr(tokenizer, "do_lower_case", None))
    return hashlib.sha256(json.dumps([vocabulary, lowercase]).encode()).hexdigest()
