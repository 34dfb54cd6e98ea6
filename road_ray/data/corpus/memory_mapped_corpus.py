"""Reader of a built corpus: rows of token ids in Arrow shards, memory-mapped.

The manifest is written last; a directory without one is not a corpus. ``build_corpus.py`` makes
one; ``shard_cache.py`` opens one of an object store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
import pyarrow as pa

from road_ray.data.features.examples_and_features import Ints, Longs
from road_ray.data.shuffle_into_batches import Windows
from road_ray.errors import DataError
from road_ray.system.files import sha256_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

MANIFEST = "MANIFEST.json"
FORMAT = 5  # the digest of the tokenizer has all that its rows depend on
_TOKENIZER_PARTS = ("normalizer", "pre_tokenizer", "model", "added_tokens")


class DamagedCorpus(DataError):
    """Error for a corpus that is unusable and can be built again."""


def _damaged(path: Path | str, reason: str, corpus: Path | str) -> DamagedCorpus:
    return DamagedCorpus(
        f"{path}: damaged corpus: {reason}\n  fix: delete {corpus} and build it again"
    )


class OpenShard(NamedTuple):
    """Rows of one shard, views into its file."""

    tokens: Ints  # of all rows, concatenated
    bounds: Longs  # [rows + 1] where each row begins
    first_segments: Ints  # length of segment 0 in each row, special tokens included


@dataclass(frozen=True)
class Corpus:
    """Unpadded two-segment rows over shards, numbered through.

    All shards of a directory are open; of an object store, only those in use are, and ``lengths``
    and ``first_segment`` can then only be indexed by row numbers.
    """

    dataset: ClassVar[str] = "corpus"
    task: ClassVar[str] = ""
    choices: ClassVar[int] = 1

    directory: Path | str
    shards: Sequence[OpenShard]
    starts: Longs  # [shards + 1] number of the first row of each shard
    manifest: dict[str, Any]
    windows: Windows | None = None  # None: all rows are shuffled together

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def max_length_tokens(self) -> int | None:
        """Length of the longest row that was asked for."""
        length = self.manifest.get("max_length_tokens")
        return None if length is None else int(length)

    @cached_property
    def lengths(self) -> Longs:
        """Tokens in each row."""
        if isinstance(self.shards, tuple):
            return np.concatenate([np.diff(shard.bounds) for shard in self.shards])
        return cast(Longs, _Column(self, lambda shard, rows: np.diff(shard.bounds)[rows]))

    @cached_property
    def first_segment(self) -> Ints:
        """Length of segment 0 in each row, special tokens included."""
        if isinstance(self.shards, tuple):
            return np.concatenate([shard.first_segments for shard in self.shards])
        return cast(Ints, _Column(self, lambda shard, rows: shard.first_segments[rows]))

    def row(self, index: int) -> Ints:
        """Return the token ids of one row, a view into the shard."""
        number = int(np.searchsorted(self.starts, index, side="right")) - 1
        shard, local = self.shards[number], index - int(self.starts[number])
        return shard.tokens[shard.bounds[local] : shard.bounds[local + 1]]


@dataclass(frozen=True)
class _Column:
    """Numbers of all rows, read from the shards when they are indexed by an array of rows."""

    corpus: Corpus
    of_shard: Any  # (shard, rows in it) -> their values

    def __getitem__(self, rows: Longs) -> Longs:
        numbers = np.searchsorted(self.corpus.starts, rows, side="right") - 1
        values = np.empty(len(rows), np.int64)
        for number in np.unique(numbers):
            of_shard = numbers == number
            inner = rows[of_shard] - self.corpus.starts[number]
            values[of_shard] = self.of_shard(self.corpus.shards[int(number)], inner)
        return values

    def max(self) -> int:
        return int(self.corpus.manifest["longest"])


def open_corpus(directory: Path, windows_of: int | None = None) -> Corpus:
    """Open a built corpus and memory-map its shards. Rows of ``windows_of`` shards are shuffled
    together; None: all rows.

    Every process reads the shards once to compare their sha256 with the manifest's. Raises
    ``DamagedCorpus`` if there is no corpus, or a shard is damaged or missing.
    """
    path = directory / MANIFEST
    try:
        manifest = parse_manifest(path.read_bytes(), path, directory)
        shards = []
        for name, expected in manifest.pop("sha256").items():
            path = directory / name
            state = path.stat()
            if _read_once(path, state.st_ino, state.st_size, state.st_mtime_ns) != expected:
                raise _damaged(path, "its sha256 is another than the manifest's", directory)
            shards.append(open_shard(path))
    except (OSError, pa.ArrowInvalid) as error:
        raise _damaged(path, str(error), directory) from error
    sizes = manifest.pop("sizes")
    starts = starts_of([rows for rows, _ in sizes.values()])
    windows = None if windows_of is None else Windows.of(starts, windows_of)
    return Corpus(directory, tuple(shards), starts, manifest, windows)


def open_shard(path: Path) -> OpenShard:
    """Memory-map a shard."""
    batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    column = batch.column(0)
    firsts = batch.column(1).to_numpy()
    return OpenShard(column.values.to_numpy(), column.offsets.to_numpy(), firsts)


def starts_of(rows: Sequence[int]) -> Longs:
    """Return the number of the first row of each shard, and of all rows."""
    return np.cumsum([0, *rows], dtype=np.int64)


def parse_manifest(content: bytes | str, path: Path | str, corpus: Path | str) -> dict[str, Any]:
    """Return the manifest of a corpus. Raises ``DamagedCorpus`` for a damaged one."""
    try:
        manifest: dict[str, Any] = json.loads(content)
        if manifest.get("format") != FORMAT:
            raise _damaged(path, f"format {manifest.get('format')}, this one is {FORMAT}", corpus)
        if manifest["digest"] != manifest_digest(manifest):
            raise _damaged(path, "its own sha256 is another", corpus)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, repr(error), corpus) from error
    return manifest


def manifest_digest(manifest: dict[str, Any]) -> str:
    """Return the sha256 of a manifest without its digest."""
    content = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=4096)
def _read_once(path: Path, inode: int, size: int, changed_ns: int) -> str:
    return sha256_of(path)


def tokenizer_digest(tokenizer: PreTrainedTokenizerFast) -> str:
    """Return the sha256 of all that ids of a text depend on: normalizer, pre-tokenizer, vocabulary
    with merges or scores, added tokens, [CLS] and [SEP].
    """
    backend: Any = tokenizer.backend_tokenizer
    settings = json.loads(backend.to_str())
    parts = [settings[name] for name in _TOKENIZER_PARTS]
    parts += [tokenizer.cls_token_id, tokenizer.sep_token_id]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
