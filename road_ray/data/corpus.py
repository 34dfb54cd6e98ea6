"""Raw text to two-segment blocks of token ids in memory-mapped Arrow shards.

A directory of shards is committed whole: the manifest is written last, and what has none is not a corpus.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from road_ray.data.features import Ints, Longs
from road_ray.data.tokenizer import special_ids
from road_ray.errors import DataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_SINGLE_SEGMENT_FRACTION = (
    0.1  # of examples have one segment (google electra, build_pretraining_dataset.py)
)
_SHORT_FRACTION = 0.05  # of examples aim at a random shorter length (same file)
_ROWS_PER_SHARD = 50_000
# A row takes whole sentences and drops what overhangs, so paragraphs are cut up first (our choice).
_SENTENCE_END = re.compile(r"\n+|(?<=[.!?])\s+")
_SCHEMA = pa.schema([("tokens", pa.large_list(pa.int32())), ("first_segment", pa.int32())])


@dataclass(frozen=True)
class Corpus:
    """Unpadded two-segment rows over memory-mapped shards; the rows of all shards are numbered through."""

    directory: Path
    tokens: tuple[Ints, ...]
    bounds: tuple[Longs, ...]
    first_segments: tuple[Ints, ...]
    starts: Longs  # [shards + 1] number of the first row of each shard
    manifest: dict[str, Any]

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def lengths(self) -> Longs:
        """Tokens in each row."""
        return np.concatenate([np.diff(bounds) for bounds in self.bounds])

    @property
    def first_segment(self) -> Ints:
        """Length of segment 0 in each row, special tokens included."""
        return np.concatenate(self.first_segments)

    def row(self, index: int) -> Ints:
        """Token ids of one row, a view into the shard."""
        shard = int(np.searchsorted(self.starts, index, side="right")) - 1
        bounds = self.bounds[shard]
        local = index - int(self.starts[shard])
        return self.tokens[shard][bounds[local] : bounds[local + 1]]


def two_segments(
    sentences: Iterable[list[int]],
    *,
    max_length_tokens: int,
    cls_id: int,
    sep_id: int,
    rng: np.random.Generator,
) -> Iterator[tuple[list[int], int]]:
    """Rows ``([CLS] s1 [SEP] (s2 [SEP]), length of segment 0)`` from the sentences of one document.

    Segments are contiguous text; the tail of the document makes a last, shorter row.
    Source: google electra, build_pretraining_dataset.py (science: section 2.4).
    """
    waiting: list[list[int]] = []
    length = 0
    target = max_length_tokens
    for sentence in sentences:
        if not sentence:
            continue
        waiting.append(sentence)
        length += len(sentence)
        if length >= target:
            yield _row(waiting, target, max_length_tokens, cls_id, sep_id, rng)
            waiting, length = [], 0
            short = rng.random() < _SHORT_FRACTION
            target = int(rng.integers(5, max_length_tokens)) if short else max_length_tokens
    if waiting:
        yield _row(waiting, target, max_length_tokens, cls_id, sep_id, rng)


def _row(
    sentences: list[list[int]],
    target: int,
    max_length_tokens: int,
    cls_id: int,
    sep_id: int,
    rng: np.random.Generator,
) -> tuple[list[int], int]:
    single = rng.random() < _SINGLE_SEGMENT_FRACTION
    first_target = 100_000 if single else (target - 3) // 2
    first: list[int] = []
    second: list[int] = []
    for sentence in sentences:
        fits = len(first) + len(sentence) < first_target
        straddles = not second and len(first) < first_target and rng.random() < 0.5
        if not first or fits or straddles:
            first.extend(sentence)
        else:
            second.extend(sentence)
    first = first[: max_length_tokens - 2]
    second = second[: max(0, max_length_tokens - len(first) - 3)]
    row = [cls_id, *first, sep_id]
    return (row + [*second, sep_id] if second else row), len(first) + 2


def build_corpus(
    documents: Iterable[str],
    directory: Path,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
    seed: int = 0,
    source: str = "",
) -> Corpus:
    """Tokenise, cut into two-segment rows, write shards and the manifest below ``directory``; returns it opened.

    An existing complete directory of the same recipe is reused. A document never shares a row with another. Raises ``DataError`` when the text gives no row.
    """
    recipe = {
        "tokenizer": tokenizer_digest(tokenizer),
        "max_length_tokens": max_length_tokens,
        "seed": seed,
        "source": source,
    }
    if (directory / "MANIFEST.json").is_file():
        corpus = open_corpus(directory)
        if all(corpus.manifest.get(key) == value for key, value in recipe.items()):
            return corpus
        raise DataError(
            f"{directory} holds a corpus of another recipe:\n  there: "
            f"{ {key: corpus.manifest.get(key) for key in recipe} }\n  asked: {recipe}\n"
            "  fix: name another directory, or delete that one; it was left as it is"
        )
    staging = directory.with_name(f".{directory.name}.tmp-{os.getpid()}")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        counts = _write_shards(documents, staging, tokenizer, max_length_tokens, seed)
        if counts["rows"] == 0:
            raise DataError(
                f"{source or 'the corpus'}: 0 rows of text\n"
                "  fix: name files with text (parquet column `text`, JSONL key `text`, or plain text)"
            )
        (staging / "MANIFEST.json").write_text(json.dumps(recipe | counts, indent=1) + "\n")
        os.rename(staging, directory)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return open_corpus(directory)


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
        with pa.OSFile(str(directory / f"shard-{counts['shards']:05d}.arrow"), "wb") as sink:
            with pa.ipc.new_file(sink, _SCHEMA) as writer:
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
    """The shards of a built corpus, memory-mapped. Raises ``DataError`` when there is none, or rows are missing."""
    manifest_file = directory / "MANIFEST.json"
    if not manifest_file.is_file():
        raise DataError(
            f"{directory} is not a built corpus (no MANIFEST.json)\n  fix: run `road data corpus`"
        )
    manifest = json.loads(manifest_file.read_text())
    tokens, bounds, firsts = [], [], []
    for number in range(int(manifest["shards"])):
        path = directory / f"shard-{number:05d}.arrow"
        try:
            batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        except (OSError, pa.ArrowInvalid) as error:
            raise DataError(
                f"{path}: damaged or missing shard ({error})\n  fix: delete {directory} and build the corpus again"
            ) from error
        column = batch.column(0)
        tokens.append(column.values.to_numpy())
        bounds.append(column.offsets.to_numpy())
        firsts.append(batch.column(1).to_numpy())
    starts = np.cumsum([0] + [len(shard) - 1 for shard in bounds])
    if int(starts[-1]) != manifest["rows"]:
        raise DataError(
            f"{directory}: {int(starts[-1])} rows, the manifest says {manifest['rows']}; build it again"
        )
    return Corpus(directory, tuple(tokens), tuple(bounds), tuple(firsts), starts, manifest)


def tokenizer_digest(tokenizer: PreTrainedTokenizerFast) -> str:
    """sha256 of the vocabulary in order of its ids; equal digests read text alike (with equal normalisation)."""
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    lowercase = str(getattr(tokenizer, "do_lower_case", None))
    return hashlib.sha256(json.dumps([vocabulary, lowercase]).encode()).hexdigest()
