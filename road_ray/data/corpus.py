"""A built corpus: rows of token ids in memory-mapped Arrow shards.

A directory of shards is committed whole: the manifest is written last, and what has none is not a
corpus. ``corpus_build.py`` makes one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from road_ray.data.features import Ints, Longs
from road_ray.errors import DataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

MANIFEST = "MANIFEST.json"


@dataclass(frozen=True)
class Corpus:
    """Unpadded two-segment rows over memory-mapped shards, numbered through."""

    dataset: ClassVar[str] = "corpus"
    task: ClassVar[str] = ""

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
    path = directory / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        manifest |= {name: int(manifest[name]) for name in ("shards", "rows")}
    except FileNotFoundError as error:
        raise DataError(
            f"{directory} is not a built corpus (no {MANIFEST})\n  fix: run `road data corpus`"
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
