"""Answers that are given once: tables of a teacher, their upkeep, and the ensemble over them; rows
by their content, whoever made the batch, and answers without padding and back.
"""

import json
import multiprocessing
import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from road_ray.data.catalog import task
from road_ray.distillation import stored_ensemble
from road_ray.distillation.ensemble import LocalEnsemble
from road_ray.distillation.stored_ensemble import (
    StoredEnsemble,
    TeacherTables,
    find,
    keys_of_tokens,
    open_table,
    write_table,
)
from road_ray.distillation.teacher import inputs_of
from road_ray.distillation.teacher_directory import teacher_entry
from road_ray.errors import CheckpointError, DataError, ResourceError
from tests.tiny_teacher import make_batch, make_teacher

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
    return keys_of_tokens({"input_ids": ids})


def answers(*numbers: int):
    return [np.array([n, n + 0.5, -n], np.float16) for n in numbers]


def add(tables, *numbers: int):
    tables.add(rows(*numbers), {}, torch.from_numpy(np.stack(answers(*numbers))))


def filled(root: Path, *numbers: int, who=WHO) -> TeacherTables:
    tables = TeacherTables(root, who, NLI)
    with tables.labelling():
        add(tables, *numbers)
    return tables


def read(tables: TeacherTables, *numbers: int) -> bool:
    return np.array_equal(tables.read(rows(*numbers)), answers(*numbers))


def test_answers_are_read_back_in_any_order_and_from_several_tables(tmp_path):
    tables = filled(tmp_path, *range(1, 50))
    assert read(tables, 3, 1, 49)
    assert tables.holds(rows(99, 4, 2)).tolist() == [False, True, True]
    filled(tmp_path, 99, 100)
    assert not tables.holds(rows(99)).any()
    with pytest.raises(DataError):  # a batch looks for no new tables
        tables.read(rows(99))
    tables.refresh()
    assert read(tables, 99, 4, 100)
    assert len(tables) == len(TeacherTables(tmp_path, WHO, NLI)) == 51


def test_keys_that_share_their_first_half_are_different_rows(tmp_path):
    """Of 10^9 rows some do; the whole key decides."""
    keys = np.array([[7, 3], [7, 1], [2, 9], [7, 2], [9, 0]], np.uint64)
    values = np.arange(5, dtype=np.float16)
    table = open_table(write_table(tmp_path, keys, np.ones(5, int), values))
    asked = np.array([[7, 2], [7, 4], [7, 1], [7, 3], [9, 0], [0, 0], [9, 1]], np.uint64)
    rows = [row if row >= 0 else None for row in find(table, asked).tolist()]
    found = table["answer"].take(pa.array(rows)).to_pylist()
    assert found == [[3.0], None, [1.0], [0.0], [4.0], None, None]


@pytest.mark.parametrize("part", list(WHO)[1:])
def test_whatever_decides_the_answers_decides_the_directory(part, tmp_path):
    def of(who, task):
        return TeacherTables(tmp_path, who, task).directory.name

    assert of(WHO | {part: "other" * 20}, NLI) != of(WHO, NLI)
    assert of(WHO | {"directory": "moved", "metrics": {}}, NLI) == of(WHO, NLI)
    assert of(WHO, MRC) != of(WHO, NLI)


@pytest.mark.parametrize("damage", [lambda x: x[:-2], lambda x: x[:200] + b"!" + x[201:]])
def test_a_damaged_table_is_named_with_what_to_do(tmp_path, damage):
    (path,) = filled(tmp_path, 1, 2).tables
    path.write_bytes(damage(path.read_bytes()))
    for check in (True, None):
        with pytest.raises(DataError, match=rf"(?s){path}.*fix: delete it"):
            open_table(path, check=check)
    path.unlink()  # or no permission: the answers may be good
    with pytest.raises(DataError, match=r"cannot be read.*\n  fix: make it readable$"):
        open_table(path)


def forked(root: Path, numbers: range, killed_after: int | None = None):
    """A process that labels rows one table at a time; forked, for imports take seconds."""

    def write() -> None:
        tables = TeacherTables(root, WHO, NLI)
        with tables.labelling():
            for number in numbers:
                if number == killed_after:
                    os.kill(os.getpid(), signal.SIGKILL)
                if not tables.holds(rows(number))[0]:
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
    assert not tables.holds(rows(*range(6, 10))).any()


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
    assert again.holds(rows(1, 2, 3)).tolist() == [True, True, False]


def test_tables_of_another_user_are_read(tmp_path, monkeypatch):
    (path,) = filled(tmp_path, 1).tables
    (path.parent / stored_ensemble.LOCK).unlink()

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(stored_ensemble.os, "utime", refused)
    assert read(TeacherTables(tmp_path, WHO, NLI), 1)
    assert len([*path.parent.iterdir()]) == 2, "nothing is made there by reading"


def test_what_was_answered_becomes_a_table_in_the_midst_of_a_long_labelling(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_ensemble, "_TABLE_SECONDS", 0.0)
    tables = TeacherTables(tmp_path, WHO, NLI)
    with tables.labelling():
        add(tables, 1)
        add(tables, 2)
        assert len(TeacherTables(tmp_path, WHO, NLI)) == 2


PRUNE = ("data", "store", "prune")
OTHER = WHO | {"weights_sha256": "f" * 64, "directory": "t1"}


@pytest.fixture
def root(tmp_path):
    """Two teachers, one of them with two tables."""
    filled(tmp_path, 1, 2, 9)
    filled(tmp_path, 3, 4)
    filled(tmp_path, 1, 9, who=OTHER)
    return tmp_path


def test_what_is_kept_is_listed_verified_and_removed_by_name_or_if_long_unused(root, road):
    first, second = listed = json.loads(road("data", "store", "ls", root, "--json").out)
    assert [(one["rows"], one["tables"], one["teacher"]) for one in listed] == [
        *((5, 2, "t0"), (2, 1, "t1"))
    ]
    assert first["unused_days"] < 1
    assert f"{first['name']}: 2 tables, 0 damaged" in road("data", "store", "verify", root).out
    road(*PRUNE, root).refused(2, "name the teachers to remove")
    road(*PRUNE, root, "sst2-").refused(2, "no teacher of this directory")
    ago = time.time() - 10 * 86400
    os.utime(root / first["name"] / "manifest.json", (ago, ago))
    assert f"removed {first['name']}" in road(*PRUNE, root, "--unused-days", "5").out
    next(root.glob("nli-fff*/table-*")).write_bytes(b"")
    assert "damaged" in road("data", "store", "ls", root).out
    road("data", "store", "verify", root).refused(3, second["name"])
    assert f"removed {second['name']}" in road(*PRUNE, root, "nli-fff").out
    road("data", "store", "ls", root).refused(2, "no answers of teachers")


def test_a_run_that_has_a_table_open_keeps_it_and_one_that_labels_its_directory(root, road):
    tables = TeacherTables(root, WHO, NLI)
    prune = (*PRUNE, root, tables.directory.name)
    with tables.labelling():
        road(*prune).refused(ResourceError.exit_code, "labels rows")
    assert road(*prune).code == 0
    assert read(tables, 1, 4)


def batch(*numbers: int, kind: str = "nli") -> dict:
    """Rows that are known by their number; the second half of each fifth row is padding."""
    pairs = [make_batch(number, kind=kind, size=2) for number in numbers]
    rows = [inputs_of(pair, [number % 5 == 0]) for pair, number in zip(pairs, numbers, strict=True)]
    return {name: torch.cat([row[name] for row in rows]) for name in rows[0]}


class Counted:
    """Live teachers in this process that note which of them were asked how many rows."""

    def __init__(self, directories, subject):
        self.directories, self.subject = directories, subject
        self.started, self.batch_sizes = [], []

    @contextmanager
    def __call__(self, members):
        self.started.append(members)
        live = LocalEnsemble([self.directories[member] for member in members], self.subject)
        submit = live.submit

        def counted(given):
            self.batch_sizes.append(len(given["input_ids"]))
            return submit(given)

        live.submit = counted
        yield live


@pytest.fixture
def school(tmp_path):
    """``school(subject, count)``: opens the tables of some teachers and counts what they do."""
    made = {}

    def start(subject=NLI, chosen=(0, 1, 2)):
        kind = "mrc" if subject is MRC else "nli"
        for seed in chosen:
            if (seed, kind) not in made:
                made[seed, kind] = make_teacher(tmp_path / f"{kind}-{seed}", seed, kind=kind)
        directories = [made[seed, kind] for seed in chosen]
        entries = [teacher_entry(directory, subject) for directory in directories]
        stored = StoredEnsemble(tmp_path / "store", entries, subject)
        return stored, Counted(directories, subject)

    return start


def label(stored, live, given, size=2):
    """Label a batch, ``size`` rows at a time; return the number of rows that were asked."""
    inputs = inputs_of(given)
    numbers = np.arange(len(inputs["input_ids"]))
    groups = np.array_split(numbers, -(-len(numbers) // size))
    return stored.label(lambda: [inputs_of(inputs, group) for group in groups], live)


def ask(ensemble, given):
    return ensemble.gather(ensemble.submit(given))


def test_the_same_teacher_twice_is_asked_once(school):
    """Labelling waited for the lock that it held itself."""
    stored, live = school(chosen=(0, 1, 0))
    assert label(stored, live, batch(1, 2)) == 2
    answers = ask(stored, batch(2, 1))
    assert torch.equal(answers[0], answers[2])
    assert not torch.equal(answers[0], answers[1])


def test_every_reader_has_the_answers_of_the_teachers_rounded_once(school):
    cold, live = school()
    assert label(cold, live, batch(1, 2, 3, 5)) == 4
    assert [len(tables.tables) for tables in cold.tables] == [1, 1, 1], "one for all batches"
    first = ask(cold, batch(1, 2, 3, 5))
    assert first.shape == (3, 4, 3)
    assert torch.equal(first, first.half().float())
    exact = ask(LocalEnsemble(live.directories, NLI), batch(1, 2, 3, 5))
    torch.testing.assert_close(first, exact, rtol=2**-10, atol=1e-4)
    assert torch.equal(ask(cold, batch(5, 3, 2, 1)), first[:, [3, 2, 1, 0]])
    warm, idle = school()
    assert label(warm, idle, batch(3, 1)) == 0
    assert torch.equal(ask(warm, batch(3, 1)), first[:, [2, 0]])
    assert idle.started == []


def test_only_the_rows_that_are_missing_are_asked_and_one_that_was_not_is_an_error(school):
    stored, live = school()
    label(stored, live, batch(1, 2))
    with pytest.raises(DataError, match=r"no answers to 1 of 2 rows(.|\n)*label"):
        ask(stored, batch(1, 7))
    before = ask(stored, batch(1, 2))
    assert label(stored, live, batch(4, 2, 6, 4, 1)) == 2  # one of them twice
    assert live.batch_sizes == [2, 1, 1]
    assert live.started == [(0, 1, 2)] * 2
    assert torch.equal(ask(stored, batch(4, 2, 1))[:, 1:], before[:, [1, 0]])


def test_only_the_teacher_that_is_new_is_started(school):
    pair, first = school(chosen=(0, 1))
    label(pair, first, batch(1, 2))
    known = ask(pair, batch(1, 2))
    trio, live = school(chosen=(2, 1, 0))  # another order, one more
    label(trio, live, batch(1, 2))
    assert live.started == [(0,)]
    assert torch.equal(ask(trio, batch(1, 2))[[2, 1]], known)


def test_spans_are_kept_without_padding_and_served_at_any_width(school):
    stored, live = school(MRC)
    given = batch(1, 5, kind="mrc")
    label(stored, live, given)
    narrow = ask(stored, given)
    exact = ask(LocalEnsemble(live.directories, MRC), given)
    torch.testing.assert_close(narrow, exact, rtol=2**-10, atol=1e-4)
    wider = {name: torch.nn.functional.pad(x, (0, 6)) for name, x in inputs_of(given).items()}
    wide = ask(stored, wider)
    assert torch.equal(wide[..., :10], narrow)
    assert (wide[..., 10:] == -10000).all()


def test_an_answer_that_is_no_number_is_named_and_not_kept(school):
    stored, live = school()

    @contextmanager
    def broken(members):
        with live(members) as ensemble:
            gather = ensemble.gather

            def with_nan(handle):
                answers = gather(handle)
                answers[1, -1, 0] = torch.nan
                return answers

            ensemble.gather = with_nan
            yield ensemble

    with pytest.raises(CheckpointError, match=r"nli-1: .*not a number"):
        label(stored, broken, batch(1, 2))
    again, _ = school()
    assert [len(tables) for tables in again.tables] == [2, 0, 0]


def inputs(*rows: list[int], width: int = 8, left: bool = False):
    ids, mask = torch.zeros(2, len(rows), width, dtype=torch.long)
    for index, row in enumerate(rows):
        where = slice(width - len(row), None) if left else slice(len(row))
        ids[index, where], mask[index, where] = torch.tensor(row), 1
    return {"input_ids": ids, "attention_mask": mask}


def test_padding_side_width_and_kind_of_integer_do_not_matter():
    right = keys_of_tokens(inputs([5, 6, 7], [8, 9]))
    assert (keys_of_tokens(inputs([8, 9], [5, 6, 7], width=13))[::-1] == right).all()
    assert (keys_of_tokens(inputs([5, 6, 7], [8, 9], left=True)) == right).all()
    zeros = inputs([5, 6, 7], [8, 9]) | {"token_type_ids": torch.zeros(2, 8, dtype=torch.long)}
    small = {name: x.to(torch.int32) for name, x in zeros.items()}
    assert (keys_of_tokens(small) == right).all()


def test_another_token_segment_length_or_order_of_choices_is_another_row():
    first = inputs([5, 6, 7, 8])
    segments = torch.tensor([[0, 0, 1, 1, 0, 0, 0, 0]])
    given = [
        first,
        first | {"token_type_ids": segments},
        inputs([5, 6, 8, 7]),
        inputs([5, 6, 7]),
        inputs([5, 6, 7, 8, 0]),  # a real token that has the padding's id
    ]
    assert len({keys_of_tokens(rows).tobytes() for rows in given}) == 5
    ids = torch.arange(24).reshape(2, 3, 4)
    keys, moved = (keys_of_tokens({"input_ids": x}) for x in (ids, ids[:, [1, 0, 2]]))
    assert keys.shape == (2, 2)
    assert (moved != keys).any(1).all()
