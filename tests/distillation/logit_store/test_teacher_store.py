"""What one teacher has said: kept through kills, damage, full disks and company."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from road_ray.data.catalog import task
from road_ray.distillation.logit_store.row_keys import rows_of, unpadded
from road_ray.distillation.logit_store.teacher_store import (
    LOCK,
    TeacherStore,
    directory_name,
    expected_bytes,
)
from road_ray.errors import ResourceError

NLI, MRC = task("nli"), task("mrc")
WHO = {
    "directory": "t0",
    "weights_sha256": "a" * 64,
    "config_sha256": "b",
    "tokenizer_sha256": "c",
    "labels": ["x"],
    "order": None,
    "precision": "fp32",
}


def rows(*numbers: int):
    ids = torch.tensor([[5, number, number + 1] for number in numbers])
    return rows_of({"input_ids": ids})


def answers(*numbers: int):
    return np.array([[n, n + 0.5, -n] for n in numbers], np.float16).ravel()


def filled(root: Path, *numbers: int) -> TeacherStore:
    store = TeacherStore(root, WHO, NLI)
    store.add(rows(*numbers), answers(*numbers))
    return store


def read(store: TeacherStore, *numbers: int) -> bool:
    return (np.concatenate(store.read(rows(*numbers))) == answers(*numbers)).all()


def shards(store: TeacherStore) -> list[Path]:
    return sorted(store.directory.glob("shard-*.arrow"))


def test_what_was_said_is_read_before_and_after_it_reached_the_disk(tmp_path):
    store = filled(tmp_path, 1, 2, 3)
    assert read(store, 3, 1)
    store.flush()
    store.add(rows(4), answers(4))
    assert read(store, 4, 1, 2)
    assert store.holds(rows(9, 4, 2).keys).tolist() == [False, True, True]
    store.close()
    assert read(TeacherStore(tmp_path, WHO, NLI), 4, 3, 2, 1)


def test_the_first_answer_to_a_row_is_the_one_that_stays(tmp_path):
    first, two = filled(tmp_path, 1), TeacherStore(tmp_path, WHO, NLI)
    first.add(rows(1), answers(8))
    first.flush()
    two.add(rows(1), answers(7))  # it does not know of the other's
    two.close()
    assert len(shards(first)) == 2
    first.refresh()
    assert read(first, 1)
    assert read(TeacherStore(tmp_path, WHO, NLI), 1)


def test_one_process_sees_what_another_flushed(tmp_path):
    first, two = TeacherStore(tmp_path, WHO, NLI), filled(tmp_path, 1)
    two.flush()
    assert first.refresh()
    assert read(first, 1)


def test_size_and_time_bound_what_waits(tmp_path, monkeypatch):
    store = filled(tmp_path, 1)
    store.flush_if_due()
    assert shards(store) == []
    monkeypatch.setattr("road_ray.distillation.logit_store.teacher_store._PENDING_BYTES", 8)
    store.add(rows(2), answers(2))
    store.flush_if_due()
    assert len(shards(store)) == 1
    monkeypatch.undo()
    monkeypatch.setattr("road_ray.distillation.logit_store.teacher_store._PENDING_SECONDS", -1.0)
    store.add(rows(3), answers(3))
    store.flush_if_due()
    assert len(shards(store)) == 2


def test_spans_take_only_their_real_length(tmp_path):
    store = TeacherStore(tmp_path, WHO, MRC)
    ids = torch.ones(50, 384, dtype=torch.long)
    ids[:, 0] = torch.arange(50)
    mask = torch.arange(384) < torch.arange(10, 60)[:, None]
    batch = rows_of({"input_ids": ids, "attention_mask": mask})
    store.add(batch, unpadded(torch.randn(50, 2, 384), batch, MRC.kind))
    store.close()
    (shard,) = shards(store)
    num_bytes = expected_bytes(MRC.kind, batch.lengths, 1)
    assert num_bytes == 2 * 2 * sum(range(10, 60)) + 24 * 50
    assert num_bytes <= shard.stat().st_size < num_bytes + 1500


def test_the_plan_of_a_squad_stays_below_a_gigabyte():
    assert expected_bytes(MRC.kind, np.full(130_000, 384), 3) < 10**9


@pytest.mark.parametrize("part", list(WHO)[1:])
def test_whatever_decides_the_answers_decides_the_directory(part):
    other = WHO | {part: "other" * 20}
    assert directory_name(other, NLI) != directory_name(WHO, NLI)
    assert directory_name(WHO | {"directory": "moved", "metrics": {}}, NLI) == directory_name(
        WHO, NLI
    )
    assert directory_name(WHO, MRC) != directory_name(WHO, NLI)


def test_the_manifest_tells_whose_it_is(tmp_path):
    store = filled(tmp_path, 1)
    output = json.loads((store.directory / "manifest.json").read_text())
    assert output["directory"] == "t0"
    assert output["task"] == "nli"
    assert output["weights_sha256"] == "a" * 64


@pytest.mark.parametrize("damage", ["cut", "garbled", "empty"])
def test_a_damaged_shard_is_put_aside_and_its_rows_are_missing(tmp_path, damage, caplog):
    store = filled(tmp_path, 1)
    store.flush()
    store.add(rows(2), answers(2))
    store.close()
    first = shards(store)[0]
    content = first.read_bytes()
    if damage == "cut":
        first.write_bytes(content[: len(content) // 2])
    else:
        first.write_bytes(b"" if damage == "empty" else content[:-9] + b"garbled!!")
    with caplog.at_level(logging.WARNING):
        again = TeacherStore(tmp_path, WHO, NLI)
    assert "damaged" in caplog.text
    assert again.holds(rows(1, 2).keys).tolist() == [False, True]
    assert read(again, 2)
    again.add(rows(1), answers(1))
    again.close()
    assert read(TeacherStore(tmp_path, WHO, NLI), 1, 2)


def forked(root: Path, first: int, last: int, fault: str = ""):
    """A process that stores rows one flush at a time; forked, for imports take seconds."""

    def write() -> None:
        os.environ["RR_FAULT"] = fault
        store = TeacherStore(root, WHO, NLI)
        for number in range(first, last):
            store.add(rows(number), answers(number))
            store.flush()
        store.close()

    process = multiprocessing.get_context("fork").Process(target=write)
    process.start()
    return process


@pytest.mark.parametrize("number", [0, 700])
def test_a_kill_in_the_midst_of_writing_leaves_a_store_that_can_be_read(tmp_path, number):
    filled(tmp_path, 50).close()
    killed = forked(tmp_path, 0, 10, f"store:after_bytes={number}")
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    store = TeacherStore(tmp_path, WHO, NLI)
    assert list(store.directory.glob(".staged*")) == []  # swept on opening
    assert read(store, 50)
    assert not store.holds(rows(0).keys)[0]
    store.add(rows(0), answers(0))
    store.close()
    assert read(TeacherStore(tmp_path, WHO, NLI), 0, 50)


def test_two_processes_write_one_store(tmp_path):
    processes = [forked(tmp_path, 0, 20), forked(tmp_path, 10, 30)]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    store = TeacherStore(tmp_path, WHO, NLI)
    assert read(store, *range(30))
    assert len(shards(store)) == store.num_rows == 40  # what both have is there twice
    assert list(store.directory.glob("*.damaged")) == []


def test_a_full_disk_costs_the_new_answers_and_nothing_else(small_disk, caplog):
    disk = small_disk(64)
    store = filled(disk, 1)
    store.flush()
    many = tuple(range(2, 4000))
    store.add(rows(*many), answers(*many))
    with caplog.at_level(logging.WARNING):
        store.flush()
    assert "No space left" in caplog.text
    assert not store.writable
    assert store.holds(rows(1, 2).keys).tolist() == [True, False]
    store.add(rows(5), answers(5))  # it goes on in memory
    assert read(store, 1, 5)
    store.close()
    again = TeacherStore(disk, WHO, NLI)
    assert again.writable
    assert read(again, 1)


def test_a_place_that_cannot_be_used_is_told_at_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match=r"distillation\.store = .*file"):
        TeacherStore(tmp_path / "file", WHO, NLI)


def test_an_open_store_is_marked_as_in_use(tmp_path):
    import fcntl

    store = filled(tmp_path, 1)
    with (store.directory / LOCK).open("a") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        store.close()
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_what_lies_in_the_place_of_a_shard_is_put_aside_and_asked_for_again(tmp_path, caplog):
    store = filled(tmp_path, 1)
    store.close()
    (shard,) = shards(store)
    shard.unlink()
    shard.mkdir()
    again = TeacherStore(tmp_path, WHO, NLI)
    assert not again.holds(rows(1).keys).any()
    assert "it is no file" in caplog.text
    assert shard.with_name(shard.name + ".damaged").is_dir()
    again.close()


def test_a_shard_that_cannot_be_read_is_left_where_it_is_and_told_once(
    tmp_path, monkeypatch, caplog
):
    filled(tmp_path, 1).close()

    def refused(path: Path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("road_ray.distillation.logit_store.teacher_store.read_shard", refused)
    store = TeacherStore(tmp_path, WHO, NLI)
    store.refresh()
    assert not store.holds(rows(1).keys).any()
    assert caplog.text.count("cannot be read") == 1
    assert len(shards(store)) == 1
    store.close()


@pytest.mark.parametrize("name", [LOCK, "manifest.json"])
def test_a_directory_in_the_place_of_a_file_of_the_store_is_named(name, tmp_path):
    store = filled(tmp_path, 1)
    store.close()
    (store.directory / name).unlink()
    (store.directory / name).mkdir()
    with pytest.raises(ResourceError, match=f"Is a directory: .*{name}"):
        TeacherStore(tmp_path, WHO, NLI)
