"""Reader of a built corpus: rows of token ids in memory-mapped Arrow shards.

The manifest is written last; a directory without one is not a corpus. ``build.py`` makes one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from road_ray.data.features.types import Ints, Longs
from road_ray.errors import DataError
from road_ray.system.file_hashes import sha256_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

MANIFEST = "MANIFEST.json"
FORMAT = 3  # rows depend on their block's number alone; the manifest has the sha256 of every shard


class DamagedCorpus(DataError):
    """Error for a corpus that is unusable and can be built again."""


def _damaged(path: Path, why: str) -> DamagedCorpus:
    return DamagedCorpus(
        f"{path}: damaged corpus: {why}\n  fix: delete {path.parent} and build it again"
    )


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
        """Return the token ids of one row, a view into the shard."""
        shard = int(np.searchsorted(self.starts, index, side="right")) - 1
        bounds = self.bounds[shard]
        local = index - int(self.starts[shard])
        return self.tokens[shard][bounds[local] : bounds[local + 1]]


def open_corpus(directory: Path) -> Corpus:
    """Open a built corpus and memory-map its shards.

    Every process reads them once to compare their sha256 with the manifest's. Raises
    ``DamagedCorpus`` if there is no corpus, or a shard is damaged or missing.
    """
    manifest = _manifest(directory)
    tokens, bounds, firsts = [], [], []
    for name, expected in manifest.pop("sha256").items():
        path = directory / name
        try:
            state = path.stat()
            if _read_once(path, state.st_ino, state.st_size, state.st_mtime_ns) != expected:
                raise _damaged(path, "its sha256 is another than the manifest's")
            batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        except (OSError, pa.ArrowInvalid) as error:
            raise _damaged(path, str(error)) from error
        column = batch.column(0)
        tokens.append(column.values.to_numpy())
        bounds.append(column.offsets.to_numpy())
        firsts.append(batch.column(1).to_numpy())
    starts = np.cumsum([0] + [len(shard) - 1 for shard in bounds])
    return Corpus(directory, tuple(tokens), tuple(bounds), tuple(firsts), starts, manifest)


def _manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if manifest.get("format") != FORMAT:
            raise _damaged(path, f"format {manifest.get('format')}, this one is {FORMAT}")
        if manifest["digest"] != manifest_digest(manifest):
            raise _damaged(path, "its own sha256 is another")
    except FileNotFoundError as error:
        raise _damaged(path, "not a built corpus, there is no such file") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, repr(error)) from error
    return manifest


def manifest_digest(manifest: dict[str, Any]) -> str:
    """Return the sha256 of a manifest without its digest."""
    content = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=4096)
def _read_once(path: Path, inode: int, size: int, changed_ns: int) -> str:
    return sha256_of(path)


def tokenizer_digest(tokenizer: PreTrainedTokenizerFast) -> str:
    """Return the sha256 of the vocabulary in order of its ids, and of the lower-casing."""
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    lowercase = str(getattr(tokenizer, "do_lower_case", None))
    return hashlib.sha256(json.dumps([vocabulary, lowercase]).encode()).hexdigest()
