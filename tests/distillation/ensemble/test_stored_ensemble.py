"""Teachers that are asked once for each row, whoever asks and in whatever batches."""

from __future__ import annotations

import pytest
import torch

from road_ray.data.catalog import task
from road_ray.distillation import weighting
from road_ray.distillation.ensemble.annotate import annotate
from road_ray.distillation.ensemble.local_ensemble import LocalEnsemble
from road_ray.distillation.ensemble.protocol import NonOwningEnsemble
from road_ray.distillation.ensemble.stored_ensemble import StoredEnsemble
from road_ray.distillation.ensemble.teacher import inputs_of
from road_ray.distillation.logit_store.row_keys import RowKeys, rows_of
from road_ray.distillation.teacher_manifest import teacher_manifest

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
        self.started, self.batch_sizes, self.closed = [], [], 0

    def __call__(self, members):
        self.started.append(members)
        chosen = [self.directories[member] for member in members]
        local = LocalEnsemble.load(chosen, self.subject)
        outer = self

        class Live(NonOwningEnsemble):
            def submit(self, given):
                outer.batch_sizes.append(len(given["input_ids"]))
                return local.submit(given)

            def gather(self, handle):
                return local.gather(handle)

            def close(self):
                outer.closed += 1

        return members, Live(local)


@pytest.fixture
def school(tmp_path, teacher):
    """``school(subject, count)``: opens the store of some teachers and counts what they do."""
    made = {}

    def start(subject=NLI, chosen=(0, 1, 2), **options):
        kind = "mrc" if subject is MRC else "nli"
        for seed in chosen:
            if (seed, kind) not in made:
                made[seed, kind] = teacher(tmp_path / f"{kind}-{seed}", seed, kind=kind)
        directories = [made[seed, kind] for seed in chosen]
        live = Counted(directories, subject)
        manifest = teacher_manifest(directories, subject)
        stored = StoredEnsemble.open(tmp_path / "store", manifest, subject, live, **options)
        return stored, live

    return start


def ask(ensemble, given):
    return ensemble.gather(ensemble.submit(given))


def test_the_first_touch_gives_what_every_later_one_reads(school):
    cold, live = school()
    first = ask(cold, batch(1, 2, 3, 5))
    assert first.shape == (3, 4, 3)
    assert torch.equal(first, first.half().float())
    exact = ask(LocalEnsemble.load(live.directories, NLI), batch(1, 2, 3, 5))
    torch.testing.assert_close(first, exact, rtol=2**-10, atol=1e-4)
    assert torch.equal(ask(cold, batch(5, 3, 2, 1)), first[:, [3, 2, 1, 0]])
    assert live.batch_sizes == [4]
    cold.close()
    warm, idle = school()
    assert torch.equal(ask(warm, batch(3, 1)), first[:, [2, 0]])
    assert idle.started == []
    assert (warm.num_read, warm.num_requested) == (6, 0)


def test_only_the_rows_that_are_missing_are_asked(school):
    stored, live = school()
    before = ask(stored, batch(1, 2))
    both = ask(stored, batch(4, 2, 6, 1))
    assert live.batch_sizes == [2, 2]
    assert live.started == [(0, 1, 2)]
    assert torch.equal(both[:, [3, 1]], before)
    assert (stored.num_read, stored.num_requested) == (6, 12)


def test_only_the_teacher_that_is_new_is_started(school):
    pair, _ = school(chosen=(0, 1))
    known = ask(pair, batch(1, 2))
    pair.close()
    trio, live = school(chosen=(2, 1, 0))  # another order, one more
    result = ask(trio, batch(1, 2))
    assert live.started == [(0,)]
    assert torch.equal(result[[2, 1]], known)


def test_spans_are_kept_without_padding_and_served_at_any_width(school):
    stored, live = school(MRC)
    given = batch(1, 5, spans=True)
    narrow = ask(stored, given)
    exact = ask(LocalEnsemble.load(live.directories, MRC), given)
    torch.testing.assert_close(narrow, exact, rtol=2**-10, atol=1e-4)
    wider = {name: torch.nn.functional.pad(x, (0, 6)) for name, x in inputs_of(given).items()}
    wide = ask(stored, wider)
    assert torch.equal(wide[..., :10], narrow)
    assert (wide[..., 10:] == -10000).all()
    assert live.batch_sizes == [2]


def test_rule_weights_and_subset_come_after_the_store(school):
    stored, _ = school()
    ask(stored, batch(1, 2))
    stored.close()
    alone, live = school(chosen=(1,))
    for options in ({"wrong": 0.5}, {"wrong": 0.9}):
        rule = weighting.resolve("correctness", **options)
        (softened,) = annotate([batch(1, 2)], alone, rule)
        assert softened["soft_logits"].shape == (2, 3)
    assert live.started == []


def test_a_row_that_is_under_way_twice_has_one_answer(school):
    stored, live = school()
    first, second = stored.submit(batch(1, 2)), stored.submit(batch(2, 3, 3))
    assert live.batch_sizes == [2, 3]
    before, after = stored.gather(first), stored.gather(second)
    assert torch.equal(before[:, 1], after[:, 0])
    assert torch.equal(after[:, 1], after[:, 2])


def test_when_nothing_is_missing_the_teachers_are_let_go(school):
    events = []
    needed = RowKeys(rows_of(inputs_of(batch(1, 2, 3, 4))).keys)
    stored, live = school(needed=needed, on_event=events.append)
    first, two, three = (stored.submit(b) for b in (batch(1, 2), batch(3, 4), batch(4, 1)))
    stored.gather(first)
    stored.gather(two)
    assert stored.complete
    assert live.closed == 0  # one answer is still under way
    stored.gather(three)
    assert live.closed == 1
    assert events == [{"kind": "store_complete", "rows": 4}]
    ask(stored, batch(9))  # a stranger: they are called back
    assert len(live.started) == 2
    stored.close()
    assert live.closed == 2
    again, idle = school(needed=needed)
    assert again.complete
    ask(again, batch(2, 3))
    assert idle.started == []


def test_what_others_stored_meanwhile_is_found(school):
    (mine, live), (theirs, _) = school(), school()
    output = ask(theirs, batch(1, 2))
    theirs.flush()
    assert torch.equal(ask(mine, batch(1, 2)), output)
    assert live.started == []


def test_answers_that_were_forgotten_are_asked_again(school, monkeypatch):
    """As on a full disk: nothing can be written, and memory is bounded."""
    stored, live = school()
    for store in stored.stores:
        store.writable = False
    first = ask(stored, batch(1, 2))
    under_way = stored.submit(batch(1, 2))
    stored.flush()
    assert torch.equal(stored.gather(under_way), first)
    assert live.batch_sizes == [2, 2]


def test_replaced_weights_are_never_served_the_old_answers(school, tmp_path, teacher):
    stored, live = school(chosen=(0,))
    old = ask(stored, batch(1, 2))
    stored.close()
    teacher(live.directories[0], 7)  # other weights in the same place
    again, fresh = school(chosen=(0,))
    new = ask(again, batch(1, 2))
    assert fresh.batch_sizes == [2]
    assert not torch.allclose(old, new, atol=0.1)
    exact = ask(LocalEnsemble.load(live.directories, NLI), batch(1, 2))
    torch.testing.assert_close(new, exact, rtol=2**-10, atol=1e-4)


def test_permuted_labels_in_the_same_weights_are_other_answers(school, tmp_path):
    """Only the names in config.json move: the store must not serve columns by position."""
    import json

    stored, live = school(chosen=(0,))
    old = ask(stored, batch(1, 2))
    stored.close()
    path = live.directories[0] / "config.json"
    names = {"0": "entailment", "1": "contradiction", "2": "neutral"}
    changed = {"id2label": names, "label2id": {name: int(i) for i, name in names.items()}}
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    again, fresh = school(chosen=(0,))
    new = ask(again, batch(1, 2))
    assert fresh.batch_sizes == [2]
    torch.testing.assert_close(new, old[..., [1, 0, 2]])


def test_every_way_to_ask_is_told_apart_for_the_probe(school):
    stored, live = school(needed=RowKeys(rows_of(inputs_of(batch(1, 2, 3))).keys))
    assert list(stored.paths(batch(1, 2))) == ["the live teachers 0, 1, 2"]
    assert not stored.holds(RowKeys(rows_of(batch(1, 2)).keys)).any()  # nothing was kept of it
    ask(stored, batch(1))
    paths = stored.paths(batch(1, 2))
    answers, counted = paths["the store"]
    assert counted.tolist() == [[True, False]] * 3
    assert torch.equal(answers[:, 0], ask(stored, batch(1))[:, 0])
    ask(stored, batch(2, 3))
    assert list(stored.paths(batch(1, 2))) == ["the store"]
    assert len(live.started) == 1


def test_what_is_borrowed_is_not_closed(school):
    _, live = school(chosen=(0,))
    _, owner = live((0,))
    with NonOwningEnsemble(owner) as borrowed:
        assert borrowed.size == owner.size
        assert torch.equal(ask(borrowed, batch(1)), ask(owner, batch(1)))
    assert live.closed == 0
