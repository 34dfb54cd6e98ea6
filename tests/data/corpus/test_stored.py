"""Corpora of an object store: built, resumed, read through the cache, as those of a directory; the
cache is bounded, shared and verified.
"""

import hashlib
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from filelock import FileLock

from road_ray.data.batching import BatchStream
from road_ray.data.config import CorpusConfig
from road_ray.data.corpus import build_corpus, documents
from road_ray.data.corpus.memory_mapped_corpus import CachedShards, Shard, open_corpus
from road_ray.data.corpus.prepare_corpus import prepare_corpus
from road_ray.data.tokenizer import train_wordpiece
from road_ray.errors import ConfigError, DataError, ResourceError
from road_ray.system.remote_files import Storage

DOCUMENTS = [
    f"The cat number {n} sat on mat {n * 7}. It was warm! " * (1 + n % 4) for n in range(90)
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    place = tmp_path_factory.mktemp("tokenizer")
    train_wordpiece(DOCUMENTS, vocab_size=90).save_pretrained(place)
    return str(place)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Nine files in five parts, of several blocks and shards each."""
    monkeypatch.setattr(build_corpus, "_BLOCK_CHARACTERS", 300)
    monkeypatch.setattr(build_corpus, "_ROWS_PER_SHARD", 20)
    monkeypatch.setattr(documents, "_PART_BYTES", 1500)


@pytest.fixture
def data(stored, tokenizer, tmp_path):
    """The configuration of a text of nine files, and of shards beside it."""
    text = stored("text")
    for number in range(9):
        lines = [json.dumps({"text": item}) for item in DOCUMENTS[number * 10 : number * 10 + 10]]
        text.write(f"{text.base}/{number}.jsonl", "\n".join(lines).encode())
    return CorpusConfig(
        corpus=text.address,
        tokenizer=tokenizer,
        max_length_tokens=16,
        batch_size=4,
        shards=stored("shards").address,
        shard_cache=tmp_path / "cache",
        shard_cache_gb=1e-4,
        shuffled_shards=3,
    )


def prepared(data):
    return prepare_corpus(data, 1)[0]


def all_rows(corpus):
    return [corpus.row(index).tolist() for index in range(len(corpus))]


def stream_of(corpus, data):
    return BatchStream(corpus, data.batch_size, seed=3, pad_id=0)


def test_rows_and_batches_are_those_of_a_directory(data, tmp_path):
    there = prepared(data)
    here = prepared(data.model_copy(update={"shards": str(tmp_path / "shards")}))
    assert there.manifest == here.manifest
    assert here.manifest["shards"] > 8
    assert all_rows(there) == all_rows(here)
    first, other = stream_of(there, data), stream_of(here, data)
    for number in range(first.batches_per_epoch + 2):
        for name in ("input_ids", "token_type_ids", "rows"):
            assert first[number][name].equal(other[number][name])


def test_an_epoch_has_every_row_once_and_few_shards_at_a_time(data):
    corpus = prepared(data)
    stream = stream_of(corpus, data)
    batches = [stream.row_numbers(number) for number in range(stream.batches_per_epoch)]
    assert sorted(np.concatenate(batches)) == list(range(len(corpus)))
    per_window = stream.batches_per_window
    first = np.concatenate(batches[:per_window])
    assert len(first) == per_window * 4
    following = [stream.row_numbers(stream.batches_per_epoch + n) for n in range(per_window)]
    assert sorted(np.concatenate(following)) != sorted(first)


def test_a_cache_too_small_for_a_window_is_refused(data):
    message = r"data\.shard_cache_gb = 1e-06: 3 shards(?s:.)*allowed: at least(?s:.)*fix"
    with pytest.raises(ConfigError, match=message):
        prepared(data.model_copy(update={"shard_cache_gb": 1e-6}))


def test_a_build_that_loses_its_store_leaves_no_corpus_and_restarts_to_the_same_bytes(
    data, stored, monkeypatch
):
    whole, write, calls = prepared(data).manifest, Storage.write, []
    other = data.model_copy(update={"shards": stored("again").address})

    def lost(self, path, content):
        calls.append(path)
        if len(calls) == 6:
            raise ResourceError(f"{path}: cannot be written: connection reset")
        write(self, path, content)

    monkeypatch.setattr(Storage, "write", lost)
    with pytest.raises(ResourceError, match="connection reset"):
        prepared(other)
    names = [entry.path for entry in stored("again").list_files()]
    assert len(names) == 5
    assert not any("MANIFEST" in name for name in names)
    assert prepared(other).manifest == whole


def test_a_learnt_tokenizer_needs_a_directory(data):
    with pytest.raises(ConfigError, match=r"data\.tokenizer is not given(?s:.)*fix: road data"):
        prepared(data.model_copy(update={"tokenizer": None}))


def test_files_of_the_hub_are_read_where_they_lie(tokenizer, tmp_path):
    """A folder in the hub's layout: the files of the training split, and none of the others."""
    folder = tmp_path / "hub"
    (folder / "data").mkdir(parents=True)
    for name, text in (("train-0", "One."), ("train-1", "Two."), ("test-0", "No.")):
        (folder / "data" / f"{name}.jsonl").write_text(json.dumps({"text": text}))
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files:\n"
        "  - split: train\n    path: data/train-*.jsonl\n"
        "  - split: test\n    path: data/test-*.jsonl\n---\n"
    )
    data = CorpusConfig(
        corpus=f"hub:{folder}",
        tokenizer=tokenizer,
        max_length_tokens=16,
        shards=str(tmp_path / "shards"),
    )
    corpus = prepared(data)
    assert corpus.manifest["documents"] == 2
    assert not list((tmp_path / "shards").glob("hub-*/"))
    assert open_corpus(corpus.directory, data).manifest == corpus.manifest


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


def test_a_damaged_copy_stays_while_another_process_evicts(shards, tmp_path):
    cache = cache_of(shards, tmp_path / "cache")
    path = cache.fetch(0)
    path.write_bytes(b"x" * 1000)
    with ThreadPoolExecutor() as pool, FileLock(cache.directory / "lock"):
        pool.submit(cache.__getitem__, 0)
        threading.Event().wait(0.3)
        assert path.exists()
    assert path.read_bytes() == bytes(1000)
