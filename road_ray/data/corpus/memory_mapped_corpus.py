"""Reader of a built corpus: rows of token ids in Arrow shards, memory-mapped.

The manifest is written last; a directory without one is not a corpus. ``build_corpus.py`` makes
one. One of an object store is opened through local copies in a directory of bounded size, which all
processes of a machine share: a shard is fetched once, verified by its sha256, and evicted when
others need the room and it was used least recently.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
import pyarrow as pa
from filelock import FileLock

from road_ray.data.config import CorpusConfig
from road_ray.data.examples import Ints, Longs
from road_ray.errors import ConfigError, DataError, ResourceError, RoadError
from road_ray.system.files import cache_home, sha256_of
from road_ray.system.remote_files import Storage

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


MANIFEST = "MANIFEST.json"
FORMAT = 6  # sentences keep the space before them
_TOKENIZER_PARTS = ("normalizer", "pre_tokenizer", "model", "added_tokens")
SHUFFLED_SHARDS = 16  # where the configuration does not say how many


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
    window_rows: int = 0  # so many are shuffled together, to read few shards at a time; 0: all
    expect: Callable[[Sequence[int]], None] | None = None
    """Called with the numbers of the shards that are read from now on."""
    has_segments: bool = True  # whether its tokenizer tells the second text by token types

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def max_length_tokens(self) -> int:
        """Length of the longest row that was asked for."""
        return int(self.manifest["max_length_tokens"])

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


def open_corpus(place: Path | Storage, data: CorpusConfig) -> Corpus:
    """Open a built corpus: in a directory all shards, memory-mapped; at an address those that are
    read, through ``data.shard_cache``.

    Every process reads the shards of a directory once to compare their sha256 with the manifest's.
    Raises ``DamagedCorpus`` if there is no corpus, or the manifest or such a shard is damaged or
    missing, ``ConfigError`` for a cache that is too small.
    """
    opened: Sequence[OpenShard]
    num_shuffled, expect = data.shuffled_shards, None
    if isinstance(place, Path):
        file = place / MANIFEST
        try:
            manifest, shards = _parse_manifest(file.read_bytes(), place)
            mapped = []
            for shard in shards:
                file = place / shard.name
                state = file.stat()
                if _read_once(file, state.st_ino, state.st_size, state.st_mtime_ns) != shard.sha256:
                    raise _damaged(file, "its sha256 is another than the manifest's", place)
                mapped.append(_open_shard(file))
            opened = tuple(mapped)
        except (OSError, pa.ArrowInvalid) as error:
            raise _damaged(file, str(error), place) from error
    else:
        path = f"{place.base}/{MANIFEST}"
        entry = place.find(path)
        content = b"" if entry is None else place.read(path, 0, entry.size)
        manifest, shards = _parse_manifest(content, str(place))
        num_shuffled = min(num_shuffled or SHUFFLED_SHARDS, len(shards))
        opened = cached = CachedShards(place, shards, data, num_shuffled + 2)
        expect = cached.expect
    starts = np.cumsum([0, *(shard.rows for shard in shards)], dtype=np.int64)
    window_rows = (num_shuffled or 0) * max((shard.rows for shard in shards), default=0)
    where = place if isinstance(place, Path) else str(place)
    return Corpus(where, opened, starts, manifest, window_rows, expect)


@lru_cache(maxsize=4096)
def _read_once(path: Path, inode: int, size: int, changed_ns: int) -> str:
    return sha256_of(path)


def _open_shard(path: Path) -> OpenShard:
    """Memory-map a shard."""
    batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    column = batch.column(0)
    firsts = batch.column(1).to_numpy()
    return OpenShard(column.values.to_numpy(), column.offsets.to_numpy(), firsts)


class Shard(NamedTuple):
    """One shard, as the manifest of its corpus has it."""

    name: str
    rows: int
    bytes: int
    sha256: str


def _parse_manifest(content: bytes, corpus: Path | str) -> tuple[dict[str, Any], list[Shard]]:
    """Return the manifest of a corpus and its shards."""
    path = f"{corpus}/{MANIFEST}"
    try:
        manifest: dict[str, Any] = json.loads(content)
        if manifest.get("format") != FORMAT:
            raise _damaged(path, f"format {manifest.get('format')}, this one is {FORMAT}", corpus)
        if manifest["digest"] != manifest_digest(manifest):
            raise _damaged(path, "its own sha256 is another", corpus)
        digests, sizes = manifest.pop("sha256"), manifest.pop("sizes")
        return manifest, [
            Shard(name, rows, size, digests[name]) for name, (rows, size) in sizes.items()
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, repr(error), corpus) from error


def manifest_digest(manifest: dict[str, Any]) -> str:
    """Return the sha256 of a manifest without its digest."""
    content = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def tokenizer_digest(tokenizer: PreTrainedTokenizerFast) -> str:
    """Return the sha256 of all that ids of a text depend on: normalizer, pre-tokenizer, vocabulary
    with merges or scores, added tokens, [CLS] and [SEP].
    """
    backend: Any = tokenizer.backend_tokenizer
    settings = json.loads(backend.to_str())
    parts = [settings[name] for name in _TOKENIZER_PARTS]
    parts += [tokenizer.cls_token_id, tokenizer.sep_token_id]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class CachedShards(Sequence[OpenShard]):
    """Shards of a stored corpus, opened when they are read, from local copies in ``directory``.

    The copies have at most ``limit_bytes``, and one is fetched at a time. At most ``num_open``
    shards are open, because an evicted file takes room until it is closed; the least recently used
    are closed. Raises ``ConfigError`` for a cache that has no room for them.
    """

    def __init__(
        self, storage: Storage, shards: Sequence[Shard], data: CorpusConfig, num_open: int
    ) -> None:
        self.storage, self.shards = storage, shards
        self.directory = data.shard_cache or cache_home() / "shards"
        self.limit_bytes = round(data.shard_cache_gb * 1e9)
        self._opened = lru_cache(maxsize=num_open)(self._open)
        largest = max(shard.bytes for shard in shards)
        if self.limit_bytes < num_open * largest:
            raise ConfigError(
                f"data.shard_cache_gb = {self.limit_bytes / 1e9:g}: {num_open - 2} shards of at "
                f"most {largest / 1e6:.0f} MB are shuffled together\n"
                f"  allowed: at least {num_open * largest / 1e9:.2g} GB, for these and two more\n"
                "  fix: raise it, or lower data.shuffled_shards"
            )

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, number: int) -> OpenShard:  # type: ignore[override]
        return self._opened(number)

    def _open(self, number: int) -> OpenShard:
        sha256 = self.shards[number].sha256
        while True:
            path = self.fetch(number)
            # Another process may evict or have damaged it before it is open.
            with suppress(FileNotFoundError):
                if sha256_of(path) == sha256:
                    return _open_shard(path)
                with FileLock(self.directory / "lock"):  # a process that evicts has listed it
                    path.unlink()

    def expect(self, numbers: Sequence[int]) -> None:
        """Fetch these shards in the background, in this order."""

        def fetch() -> None:
            with suppress(RoadError, OSError):  # raised when the shard is read
                for number in numbers:
                    self.fetch(number)

        threading.Thread(target=fetch, daemon=True).start()

    def fetch(self, number: int) -> Path:
        """Return the local copy of a shard; fetch it if needed.

        Raises ``DataError`` if the stored shard does not match the manifest, and
        ``ResourceError`` if the storage fails or the disk has no room.
        """
        shard = self.shards[number]
        path = self.directory / f"{shard.sha256}.arrow"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                os.utime(path)  # used now
                return path
            with FileLock(self.directory / "lock"):
                if not path.exists():  # else another process has fetched it
                    self._fetch(shard, path)
            return path
        except OSError as error:
            raise ResourceError(
                f"{self.directory}: the cache of shards cannot be used: {error}\n"
                f"  allowed: room for data.shard_cache_gb = {self.limit_bytes / 1e9:g}\n"
                "  fix: free space there, or set data.shard_cache to a directory of another disk\n"
                "  kept: the checkpoints and the shards; to resume, run the same command"
            ) from error

    def _fetch(self, shard: Shard, path: Path) -> None:
        """Evict shards until this one fits, then fetch it; the lock is held."""
        partial = path.with_suffix(".partial")
        for left in self.directory.glob("*.partial"):  # of a killed process
            left.unlink()
        cached = sorted(self.directory.glob("*.arrow"), key=lambda old: old.stat().st_mtime_ns)
        total = sum(old.stat().st_size for old in cached)
        for old in cached:
            free = shutil.disk_usage(self.directory).free
            if total + shard.bytes <= self.limit_bytes and shard.bytes <= free:
                break
            total -= old.stat().st_size
            old.unlink()
        stored = f"{self.storage.base}/{shard.name}"
        try:
            with partial.open("wb") as file:
                digest = self.storage.download(stored, file, shard.bytes)
            if digest == shard.sha256:
                os.replace(partial, path)
                return
        finally:
            partial.unlink(missing_ok=True)
        raise DataError(
            f"{self.storage}/{shard.name}: damaged corpus: sha256 {digest[:12]}, the manifest has "
            f"{shard.sha256[:12]}; it was changed after the corpus was built\n"
            "  fix: delete the corpus there and build it again\n"
            "  kept: the checkpoints; to resume, run the same command"
        )
