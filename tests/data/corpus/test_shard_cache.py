"""The local cache of shards: bounded, shared, verified."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress

import pytest

from road_ray.data.config import CorpusConfig
from road_ray.data.corpus.memory_mapped_corpus import CachedShards, Shard
from road_ray.errors import DataError, ResourceError
from road_ray.system.remote_files import Storage


def store(place, count, size):
    """A storage of a directory with so many shards of ``size`` bytes each."""
    place.mkdir()
    made = []
    for number in range(count):
        content = bytes([number]) * size
        (place / f"{number}.arrow").write_bytes(content)
        made.append(Shard(f"{number}.arrow", 10, size, hashlib.sha256(content).hexdigest()))
    return Storage(f"file://{place}"), made


@pytest.fixture
def shards(tmp_path):
    return store(tmp_path / "store", 6, 1000)


def cache_of(shards, directory, limit_bytes=3_000):
    data = CorpusConfig(shard_cache=directory, shard_cache_gb=limit_bytes / 1e9)
    return CachedShards(*shards, data, num_open=1)


def names(cache):
    return {path.stem for path in cache.directory.glob("*.arrow")}


def test_the_least_recently_used_are_evicted_and_the_bound_holds(shards, tmp_path):
    made, cache = shards[1], cache_of(shards, tmp_path / "cache")
    for when in range(3):
        os.utime(cache.fetch(when), (when, when))
    cache.fetch(0)  # now the newest
    for number in (3, 4):
        cache.fetch(number)
        held = sum(path.stat().st_size for path in cache.directory.glob("*.arrow"))
        assert held <= 3_000
    assert names(cache) == {made[number].sha256 for number in (0, 3, 4)}
    assert not list(cache.directory.glob("*.partial"))


def test_what_a_killed_process_left_is_removed(shards, tmp_path):
    made, cache = shards[1], cache_of(shards, tmp_path / "cache")
    cache.directory.mkdir()
    (cache.directory / f"{made[1].sha256}.partial").write_bytes(bytes(2500))
    cache.fetch(0)
    assert names(cache) == {made[0].sha256}
    assert not list(cache.directory.glob("*.partial"))


def test_a_shard_that_was_changed_in_the_store_is_refused_by_its_digest(shards, tmp_path):
    (tmp_path / "store" / "0.arrow").write_bytes(b"x" * 1000)
    message = r"0\.arrow: damaged corpus: sha256(?s:.)*changed after(?s:.)*fix(?s:.)*kept"
    with pytest.raises(DataError, match=message):
        cache_of(shards, tmp_path / "cache").fetch(0)
    assert not list((tmp_path / "cache").glob("*.partial"))


def test_a_disk_that_another_program_fills_stops_and_is_used_again_when_it_has_room(
    small_disk, tmp_path
):
    """A real disk of 48 KiB and shards of 20 kB, of which two fit beside the lock."""
    disk, shards = small_disk(48), store(tmp_path / "store", 3, 20_000)
    made, first = shards[1], bytes([0]) * 20_000
    cache, other = cache_of(shards, disk / "cache", 10**6), disk / "of another program"
    for number in range(3):
        assert cache.fetch(number).read_bytes() == bytes([number]) * 20_000
    assert names(cache) == {made[1].sha256, made[2].sha256}
    with suppress(OSError), other.open("wb") as file:
        file.write(bytes(1 << 20))  # as much as there is room for
    assert shutil.disk_usage(disk).free == 0
    assert cache.fetch(0).read_bytes() == first  # in the room of another
    for path in disk.rglob("*.arrow"):
        path.unlink()
    with suppress(OSError), other.open("ab") as file:
        file.write(bytes(1 << 20))
    with pytest.raises(ResourceError, match=r"No space left(?s:.)*kept(?s:.)*resume"):
        cache.fetch(0)
    assert not list(disk.rglob("*.partial"))
    other.unlink()
    assert cache.fetch(0).read_bytes() == first


def test_two_processes_fetch_a_shard_once(shards, tmp_path, monkeypatch):
    """The second waits for the lock of the first, here a child of the same directory."""
    import threading

    cache, calls = cache_of(shards, tmp_path / "cache", 10_000), []
    download = Storage.download

    def slow(self, path, target, size):
        calls.append(path)
        threading.Event().wait(0.3)
        return download(self, path, target, size)

    monkeypatch.setattr(Storage, "download", slow)
    threads = [threading.Thread(target=cache.fetch, args=(0,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
