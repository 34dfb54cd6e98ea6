"""Open a corpus in an object store; its shards are fetched through a local cache when read."""

from __future__ import annotations

from road_ray.data.batch_order import Windows
from road_ray.data.corpus.dataset import MANIFEST, Corpus, DamagedCorpus, parse_manifest, starts_of
from road_ray.data.corpus.places import StoredPlace
from road_ray.data.corpus.shard_cache import CachedShards, ShardCache, StoredShard
from road_ray.data.corpus.storage import Storage
from road_ray.errors import ConfigError

SHUFFLED_SHARDS = 16  # where the configuration does not say how many


def open_stored_corpus(
    storage: Storage, cache: ShardCache, shuffled_shards: int | None = None
) -> Corpus:
    """Open the corpus at an address; so many shards are shuffled together.

    Raises ``DamagedCorpus`` if there is none, ``ConfigError`` for a cache that is too small.
    """
    place = f"{storage}/{MANIFEST}"
    content = StoredPlace(storage).read(MANIFEST)
    if content is None:
        raise DamagedCorpus(
            f"{place}: damaged corpus: not a built corpus, there is no such file\n"
            f"  fix: delete {storage} and build it again"
        )
    manifest = parse_manifest(content, place, str(storage))
    digests, sizes = manifest.pop("sha256"), manifest.pop("sizes")
    shards = [
        StoredShard(name, sizes[name][0], sizes[name][1], sha256)
        for name, sha256 in digests.items()
    ]
    together = min(shuffled_shards or SHUFFLED_SHARDS, len(shards))
    largest = max(shard.bytes for shard in shards)
    least = (together + 2) * largest
    if cache.limit_bytes < least:
        raise ConfigError(
            f"data.shard_cache_gb = {cache.limit_bytes / 1e9:g}: {together} shards of at most "
            f"{largest / 1e6:.0f} MB are shuffled together\n"
            f"  allowed: at least {least / 1e9:.2g} GB, for these and two more\n"
            "  fix: raise it, or lower data.shuffled_shards"
        )
    opened = CachedShards(storage, shards, cache, least)
    starts = starts_of([shard.rows for shard in shards])
    windows = Windows.of(starts, together, opened.expect)
    return Corpus(str(storage), opened, starts, manifest, windows)
