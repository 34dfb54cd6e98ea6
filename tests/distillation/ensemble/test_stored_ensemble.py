"""Teachers that answer each row once, before whoever reads it and in whatever batches."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from road_ray.data.catalog import task
from road_ray.distillation.ensemble.local_ensemble import LocalEnsemble
from road_ray.distillation.ensemble.protocol import WrappedEnsemble
from road_ray.distillation.ensemble.stored_ensemble import StoredEnsemble
from road_ray.distillation.ensemble.teacher import inputs_of, some_rows
from road_ray.distillation.teacher_directory import teacher_manifest
from road_ray.errors import CheckpointError, DataError

NLI, MRC = task("nli"), task("mrc")


def batch(*numbers: int, spans: bool = False, length: int = 10) -> dict:
    """Rows that are known by their number; the second half of each fifth row is padding."""
    rows = []
    for number in numbers:
        generator = torch.Generator().manual_seed(number)
        rows.append(torch.randint(5, 24, (length,), generator=generator))
    ids = torch.stack(rows)
    mask = torch.ones_like(ids)
    for index, number in enumerate(numbers):
        if number % 5 == 0:
            mask[index, length // 2 :] = 0
    given = {"input_ids": ids * mask, "attention_mask": mask}
    gold = torch.tensor([number % 3 for number in numbers])
    return given | ({"start_positions": gold, "end_positions": gold} if spans else {"labels": gold})


class Counted:
    """Live teachers in this process that note which of them were asked how many rows."""

    def __init__(self, directories, subject):
        self.directories, self.subject = directories, subject
        self.started, self.batch_sizes = [], []

    @contextmanager
    def __call__(self, members):
        self.started.append(members)
        chosen = [self.directories[member] for member in members]
        outer = self

        class Live(WrappedEnsemble):
            def submit(self, given):
                outer.batch_sizes.append(len(given["input_ids"]))
                return super().submit(given)

        yield Live(LocalEnsemble.load(chosen, self.subject))


@pytest.fixture
def school(tmp_path, teacher):
    """``school(subject, count)``: opens the tables of some teachers and counts what they do."""
    made = {}

    def start(subject=NLI, chosen=(0, 1, 2)):
        kind = "mrc" if subject is MRC else "nli"
        for seed in chosen:
            if (seed, kind) not in made:
                made[seed, kind] = teacher(tmp_path / f"{kind}-{seed}", seed, kind=kind)
        directories = [made[seed, kind] for seed in chosen]
        manifest = teacher_manifest(directories, subject)
        stored = StoredEnsemble.open(tmp_path / "store", manifest, subject)
        return stored, Counted(directories, subject)

    return start


def label(stored, live, given, size=2):
    """Label a batch, ``size`` rows at a time; return the number of rows that were asked."""
    inputs = inputs_of(given)
    numbers = np.arange(len(inputs["input_ids"]))
    groups = np.array_split(numbers, -(-len(numbers) // size))
    return stored.label(lambda: [some_rows(inputs, group) for group in groups], live)


def ask(ensemble, given):
    return ensemble.gather(ensemble.submit(given))


def test_every_reader_has_the_answers_of_the_teachers_rounded_once(school):
    cold, live = school()
    assert label(cold, live, batch(1, 2, 3, 5)) == 4
    first = ask(cold, batch(1, 2, 3, 5))
    assert first.shape == (3, 4, 3)
    assert torch.equal(first, first.half().float())
    exact = ask(LocalEnsemble.load(live.directories, NLI), batch(1, 2, 3, 5))
    torch.testing.assert_close(first, exact, rtol=2**-10, atol=1e-4)
    assert torch.equal(ask(cold, batch(5, 3, 2, 1)), first[:, [3, 2, 1, 0]])
    warm, idle = school()
    assert label(warm, idle, batch(3, 1)) == 0
    assert torch.equal(ask(warm, batch(3, 1)), first[:, [2, 0]])
    assert idle.started == []


def test_only_the_rows_that_are_missing_are_asked(school):
    stored, live = school()
    label(stored, live, batch(1, 2))
    before = ask(stored, batch(1, 2))
    assert label(stored, live, batch(4, 2, 6, 4, 1)) == 2  # one of them twice
    assert live.batch_sizes == [2, 1, 1]
    assert live.started == [(0, 1, 2)] * 2
    assert torch.equal(ask(stored, batch(4, 2, 1))[:, 1:], before[:, [1, 0]])


def test_a_row_that_was_not_asked_is_an_error(school):
    stored, live = school()
    label(stored, live, batch(1, 2))
    with pytest.raises(DataError, match=r"no answers to 1 of 2 rows(.|\n)*label"):
        ask(stored, batch(1, 7))


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
    given = batch(1, 5, spans=True)
    label(stored, live, given)
    narrow = ask(stored, given)
    exact = ask(LocalEnsemble.load(live.directories, MRC), given)
    torch.testing.assert_close(narrow, exact, rtol=2**-10, atol=1e-4)
    wider = {name: torch.nn.functional.pad(x, (0, 6)) for name, x in inputs_of(given).items()}
    wide = ask(stored, wider)
    assert torch.equal(wide[..., :10], narrow)
    assert (wide[..., 10:] == -10000).all()


def test_an_interrupted_labelling_goes_on_where_it_was(school, monkeypatch):
    from road_ray.distillation.answers import teacher_tables

    monkeypatch.setattr(teacher_tables, "_TABLE_BYTES", 1)
    whole, live = school(chosen=(0,))
    given = batch(*range(1, 21))

    class Stopped(Exception):
        pass

    @contextmanager
    def stopping(members):
        with live(members) as ensemble:
            gather, left = ensemble.gather, [4]

            def gather_some(handle):
                left[0] -= 1
                if left[0] < 0:
                    raise Stopped
                return gather(handle)

            ensemble.gather = gather_some
            yield ensemble

    with pytest.raises(Stopped):
        label(whole, stopping, given)
    again, rest = school(chosen=(0,))
    assert label(again, rest, given) == 20 - 4 * 2
    exact = ask(LocalEnsemble.load(live.directories, NLI), given)
    torch.testing.assert_close(ask(again, given), exact, rtol=2**-10, atol=1e-4)


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

    with pytest.raises(CheckpointError, match=r"teacher 1: .*not a number"):
        label(stored, broken, batch(1, 2))
    again, _ = school()
    assert [len(tables) for tables in again.tables] == [2, 0, 0]
