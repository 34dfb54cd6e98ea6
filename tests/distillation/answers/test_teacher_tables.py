"""What one teacher has answered: kept through kills and full disks."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from road_ray.data.catalog import task
from road_ray.distillation.answers import teacher_tables
from road_ray.distillation.answers.answer_table import AnswerTable, open_table, write_table
from road_ray.distillation.answers.row_keys import counts_of, rows_of, unpadded
from road_ray.distillation.answers.teacher_tables import TeacherTables, directory_name
from road_ray.errors import DataError, ResourceError

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


def add(tables, *numbers: int):
    tables.add(rows(*numbers).keys, np.full(len(numbers), 3), answers(*numbers))


def filled(root: Path, *numbers: int, who=WHO) -> TeacherTables:
    tables = TeacherTables(root, who, NLI)
    with tables.labelling():
        add(tables, *numbers)
    return tables


def read(tables: TeacherTables, *numbers: int) -> bool:
    return (np.concatenate(tables.read(rows(*numbers).keys)) == answers(*numbers)).all()


def test_answers_are_read_back_in_any_order_and_from_several_tables(tmp_path):
    tables = filled(tmp_path, *range(1, 50))
    assert read(tables, 3, 1, 49)
    assert tables.holds(rows(99, 4, 2).keys).tolist() == [False, True, True]
    filled(tmp_path, 99, 100)
    assert not tables.holds(rows(99).keys).any()
    tables.refresh()
    assert read(tables, 99, 4, 100)
    assert len(tables) == len(TeacherTables(tmp_path, WHO, NLI)) == 51


def test_keys_that_share_their_first_half_are_different_rows(tmp_path):
    """Of 10^9 rows some do; the whole key decides."""
    keys = np.array([[7, 3], [7, 1], [2, 9], [7, 2], [9, 0]], np.uint64)
    values = np.arange(5, dtype=np.float16)
    table = open_table(write_table(tmp_path, keys, np.ones(5, int), values))
    found = table.find(
        np.array([[7, 2], [7, 4], [7, 1], [7, 3], [9, 0], [0, 0], [9, 1]], np.uint64)
    )
    assert [float(table.read(row)[0]) if row >= 0 else None for row in found] == [
        *(3.0, None, 1.0, 0.0, 4.0, None, None)
    ]


def test_spans_take_only_their_real_length(tmp_path):
    ids = torch.ones(50, 384, dtype=torch.long)
    ids[:, 0] = torch.arange(50)
    mask = torch.arange(384) < torch.arange(10, 60)[:, None]
    batch = rows_of({"input_ids": ids, "attention_mask": mask})
    given = torch.randn(50, 2, 384)
    values, counts = unpadded(given, batch, MRC.kind), counts_of(MRC.kind, batch.lengths)
    table = open_table(write_table(tmp_path, batch.keys, counts, values))
    size = sum(path.stat().st_size for path in table.directory.glob("*.npy"))
    assert 0 <= size - (2 * 2 * sum(range(10, 60)) + 24 * 50) < 500
    for number, row in enumerate(table.find(batch.keys)):
        expected = given[number, :, : 10 + number].half().numpy().ravel()
        assert (table.read(row) == expected).all()


@pytest.mark.parametrize("part", list(WHO)[1:])
def test_whatever_decides_the_answers_decides_the_directory(part):
    other = WHO | {part: "other" * 20}
    assert directory_name(other, NLI) != directory_name(WHO, NLI)
    assert directory_name(WHO | {"directory": "moved", "metrics": {}}, NLI) == directory_name(
        WHO, NLI
    )
    assert directory_name(WHO, MRC) != directory_name(WHO, NLI)


@pytest.mark.parametrize("damage", ["cut", "garbled", "gone", "record", "version"])
def test_a_damaged_table_is_named_with_what_to_do(tmp_path, damage):
    (table,) = filled(tmp_path, 1, 2).tables
    values, record = table.directory / "values.npy", table.directory / "table.json"
    content = values.read_bytes()
    match damage:
        case "cut":
            values.write_bytes(content[:-2])
        case "garbled":
            values.write_bytes(content[:-9] + b"garbled!!")
        case "gone":
            values.unlink()
        case "record":
            record.write_text("{")
        case "version":
            record.write_text(json.dumps({"format": 1}))
    with pytest.raises(DataError, match=rf"(?s){table.directory}.*fix: delete it"):
        TeacherTables(tmp_path, WHO, NLI)


def forked(root: Path, numbers: range, killed_after: int | None = None):
    """A process that labels rows one table at a time; forked, for imports take seconds."""

    def write() -> None:
        tables = TeacherTables(root, WHO, NLI)
        with tables.labelling():
            for number in numbers:
                if number == killed_after:
                    os.kill(os.getpid(), signal.SIGKILL)
                if not tables.holds(rows(number).keys)[0]:
                    add(tables, number)
                    tables.flush()
                    time.sleep(0.01)

    process = multiprocessing.get_context("fork").Process(target=write)
    process.start()
    return process


def test_what_a_killed_labelling_has_asked_is_not_asked_again(tmp_path):
    killed = forked(tmp_path, range(10), killed_after=6)
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    tables = TeacherTables(tmp_path, WHO, NLI)
    assert read(tables, *range(6))
    assert not tables.holds(rows(*range(6, 10)).keys).any()


def test_two_processes_that_label_the_same_rows_wait_for_each_other(tmp_path):
    processes = [forked(tmp_path, range(20)), forked(tmp_path, range(10, 30))]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    tables = TeacherTables(tmp_path, WHO, NLI)
    assert read(tables, *range(30))
    assert len(tables) == 30


def test_a_full_disk_is_named_and_keeps_what_was_answered(small_disk):
    disk = small_disk(64)
    tables = TeacherTables(disk, WHO, NLI)
    with tables.labelling():
        add(tables, 1, 2)
        tables.flush()
        add(tables, *range(3, 4000))
        with pytest.raises(ResourceError, match="No space left"):
            tables.flush()
    again = TeacherTables(disk, WHO, NLI)
    assert again.holds(rows(1, 2, 3).keys).tolist() == [True, True, False]


def test_tables_of_another_user_are_read(tmp_path, monkeypatch):
    filled(tmp_path, 1)

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(teacher_tables.os, "utime", refused)
    assert read(TeacherTables(tmp_path, WHO, NLI), 1)


def test_opening_and_reading_do_not_depend_on_the_number_of_rows(tmp_path):
    """3 million rows of two classes: of 60 MB the search maps a few pages."""
    count = 3_000_000
    keys = np.random.default_rng(0).integers(0, 2**63, (count, 2)).astype(np.uint64)
    counts = np.full(count, 2, np.int64)
    directory = write_table(tmp_path, keys, counts, np.zeros(2 * count, np.float16))
    began = time.perf_counter()
    table: AnswerTable = open_table(directory, check=False)
    rows_found = table.find(keys[::300_000])
    assert [len(table.read(int(row))) for row in rows_found] == [2] * 10
    assert time.perf_counter() - began < 0.5
