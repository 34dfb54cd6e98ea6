"""Corpora of an object store, opened through local copies in a directory of bounded size.

All processes of a machine share it. A shard is fetched once, verified by its sha256, and evicted
when others need the room and it was used least recently.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from road_ray.data.corpus.memory_mapped_corpus import (
    MANIFEST,
    Corpus,
    DamagedCorpus,
    OpenShard,
    open_shard,
    parse_manifest,
    starts_of,
)
from road_ray.data.shuffle_into_batches import Windows
from road_ray.errors import ConfigError, ResourceError, RoadError
from road_ray.system.files import sha256_of
from road_ray.system.remote_files import Storage

SHUFFLED_SHARDS = 16  # where the configuration does not say how many


@dataclass(frozen=True)
class StoredShard:
    """One shard of an object store, as the manifest of its corpus has it."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class ShardCache:
    """Directory of copies of at most ``limit_bytes``, one of which is fetched at a time."""

    directory: Path
    limit_bytes: int

    def fetch(self, storage: Storage, shard: StoredShard) -> Path:
        """Return the local copy of a shard; fetch it if needed.

        Raises ``DamagedCorpus`` if the stored shard does not match the manifest, and
        ``ResourceError`` if the storage fails or the disk has no room.
        """
        path = self.directory / f"{shard.sha256}.arrow"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if not _touched(path, shard.bytes):
                with FileLock(self.directory / "lock"):
                    if not _touched(path, shard.bytes):  # another process has fetched it
                        self._fetch(storage, shard, path)
            return path
        except OSError as error:
            raise ResourceError(
                f"{self.directory}: the cache of shards cannot be used: {error}\n"
                f"  allowed: room for data.shard_cache_gb = {self.limit_bytes / 1e9:g}\n"
                "  fix: free space there, or set data.shard_cache to a directory of another disk\n"
                "  kept: the checkpoints and the shards; to resume, run the same command"
            ) from error

    def _fetch(self, storage: Storage, shard: StoredShard, path: Path) -> None:
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
        try:
            with partial.open("wb") as file:
                digest = storage.download(f"{storage.base}/{shard.name}", file, shard.bytes)
            if digest == shard.sha256:
                os.replace(partial, path)
                return
        finally:
            partial.unlink(missing_ok=True)
        raise DamagedCorpus(
            f"{storage}/{shard.name}: damaged corpus: sha256 {digest[:12]}, the manifest has "
            f"{shard.sha256[:12]}; it was changed after the corpus was built\n"
            "  fix: delete the corpus there and build it again\n"
            "  kept: the checkpoints; to resume, run the same command"
        )


class CachedShards(Sequence[OpenShard]):
    """Shards of a stored corpus, opened when they are read; the least recently used are closed.

    At most ``num_open`` are open, because an evicted file takes room until it is closed.
    """

    def __init__(
        self, storage: Storage, shards: Sequence[StoredShard], cache: ShardCache, num_open: int
    ) -> None:
        self.storage, self.shards, self.cache = storage, shards, cache
        self._opened = lru_cache(maxsize=num_open)(self._open)
        self._verified: set[Path] = set()

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, number: int) -> OpenShard:  # type: ignore[override]
        return self._opened(number)

    def __iter__(self) -> Iterator[OpenShard]:
        return (self[number] for number in range(len(self)))

    def _open(self, number: int) -> OpenShard:
        shard = self.shards[number]
        while True:
            path = self.cache.fetch(self.storage, shard)
            # Another process may evict or have damaged it before it is open.
            with suppress(FileNotFoundError):
                if path in self._verified or sha256_of(path) == shard.sha256:
                    self._verified.add(path)
                    return open_shard(path)
                path.unlink()

    def expect(self, numbers: Sequence[int]) -> None:
        """Fetch these shards in the background, in this order."""

        def fetch() -> None:
            with suppress(RoadError, OSError):  # raised when the shard is read
                for number in numbers:
                    self.cache.fetch(self.storage, self.shards[number])

        threading.Thread(target=fetch, daemon=True).start()


def stored_manifest(storage: Storage) -> dict[str, Any] | None:
    """Return the manifest of the corpus at an address, None if there is none.

    Raises ``DamagedCorpus`` for a damaged one.
    """
    path = f"{storage.base}/{MANIFEST}"
    entry = storage.find(path)
    if entry is None:
        return None
    return parse_manifest(storage.read(path, 0, entry.bytes), storage.shown(path), str(storage))


def open_stored_corpus(
    storage: Storage, cache: ShardCache, shuffled_shards: int | None = None
) -> Corpus:
    """Open the corpus at an address; ``shuffled_shards`` are shuffled together.

    Raises ``DamagedCorpus`` if there is none, ``ConfigError`` for a cache that is too small.
    """
    manifest = stored_manifest(storage)
    if manifest is None:
        raise DamagedCorpus(
            f"{storage}/{MANIFEST}: damaged corpus: not a built corpus, there is no such file\n"
            f"  fix: delete {storage} and build it again"
        )
    digests, sizes = manifest.pop("sha256"), manifest.pop("sizes")
    shards = [
        StoredShard(name, sizes[name][0], sizes[name][1], sha256)
        for name, sha256 in digests.items()
    ]
    num_shuffled = min(shuffled_shards or SHUFFLED_SHARDS, len(shards))
    largest = max(shard.bytes for shard in shards)
    least = (num_shuffled + 2) * largest
    if cache.limit_bytes < least:
        raise ConfigError(
            f"data.shard_cache_gb = {cache.limit_bytes / 1e9:g}: {num_shuffled} shards of at most "
            f"{largest / 1e6:.0f} MB are shuffled together\n"
            f"  allowed: at least {least / 1e9:.2g} GB, for these and two more\n"
            "  fix: raise it, or lower data.shuffled_shards"
        )
    opened = CachedShards(storage, shards, cache, num_shuffled + 2)
    starts = starts_of([shard.rows for shard in shards])
    windows = Windows.of(starts, num_shuffled, opened.expect)
    return Corpus(str(storage), opened, starts, manifest, windows)


def _touched(path: Path, size: int) -> bool:
    """Return True if there is a complete file, and mark it as used now."""
    try:
        if path.stat().st_size != size:
            return False
        os.utime(path)
    except FileNotFoundError:
        return False
    return True
