"""Files that are there whole or not at all, and are believed only when their sha256 agrees."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from road_ray.distillation.logit_store.logit_shards import (
    DAMAGED,
    commit,
    quarantine,
    read_shard,
    remove_leftovers,
    shards_in,
    write_shard,
)

KEYS = np.arange(6, dtype=np.uint64).reshape(3, 2)
COUNTS = np.array([2, 0, 4])
VALUES = np.arange(6, dtype=np.float16)


@pytest.fixture
def shard(tmp_path):
    return write_shard(tmp_path, KEYS, COUNTS, VALUES)


def test_what_is_written_is_read(shard, tmp_path):
    read = read_shard(shard)
    assert (read.keys == KEYS).all()
    assert read.counts.tolist() == [2, 0, 4]
    assert read.starts.tolist() == [0, 2, 2]
    assert (read.values == VALUES).all()
    assert read.values.dtype == np.float16
    assert shards_in(tmp_path) == [shard]


def test_shards_are_listed_in_the_order_of_writing(tmp_path):
    written = [write_shard(tmp_path, KEYS, COUNTS, VALUES + n) for n in range(4)]
    assert shards_in(tmp_path) == written


@pytest.mark.parametrize("share", [0.0, 0.04, 0.5, 0.99])
def test_a_truncated_file_is_refused(shard, share):
    os.truncate(shard, int(share * shard.stat().st_size))
    with pytest.raises(ValueError, match=r"sha256|empty"):
        read_shard(shard)


def test_every_flipped_byte_is_refused(shard):
    whole = shard.read_bytes()
    for place in range(0, len(whole), 37):
        shard.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match="sha256"):
            read_shard(shard)


def test_a_damaged_file_is_put_aside(shard, tmp_path):
    quarantine(shard, "for a test")
    quarantine(shard, "twice does no harm")
    assert shards_in(tmp_path) == []
    assert shard.with_name(shard.name + DAMAGED).is_file()


def test_a_failed_write_leaves_nothing(tmp_path):
    def write(staged):
        staged.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        commit(tmp_path, write, lambda sha: sha)
    assert list(tmp_path.iterdir()) == []


def test_leftovers_go_and_those_of_the_living_stay(tmp_path):
    import socket

    host, code = socket.gethostname(), "0" * 32
    gone = tmp_path / f".staged-999999999-{host}-{code}"
    living = tmp_path / f".staged-{os.getppid()}-{host}-{code}"
    elsewhere = tmp_path / f".staged-999999999-elsewhere-{code}"
    old = tmp_path / f".staged-999999998-elsewhere-{code}"
    for path in (gone, living, elsewhere, old):
        path.write_bytes(b"")
    os.utime(old, (time.time() - 1e6,) * 2)
    remove_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([living, elsewhere])
