"""What holds for every pre-training objective as it is trained; a new one inherits these tests."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from road_ray.training.loop import train
from road_ray.training.monitoring.metrics_journal import Journal, read_rows
from road_ray.training.worker import Worker
from tests.objectives import tiny
from tests.pair import both
from tests.training import conftest as small


def learn(objective, directory, *, steps, worker, stop=None, **options):
    """The weights after so many updates of eight rows; ``OSError`` in place of update ``stop``."""
    stream = small.stream(
        small.rows(), rank=worker.rank, size=worker.size, noise_channels=objective.noise_channels
    )

    def passes(start):
        for number, batch in enumerate(stream.since(start), start):
            if number == stop:
                raise OSError("killed")
            yield [batch]

    journal = Journal(directory, console="quiet", enabled=worker.is_main)
    given = {"rates": {"peak_lr": 3e-3}, "journal": journal, "precision": "fp32"}
    train(objective, passes, small.training(directory, steps=steps, **given, **options), worker)
    return objective.state_dict()


def rows_without_times(directory):
    """The journal without what a clock says."""
    rows = read_rows(directory / "metrics.jsonl")
    return [{n: v for n, v in row.items() if not n.startswith("time/")} for row in rows]


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_a_resumed_run_equals_the_straight_one_bit_for_bit(kind, tmp_path):
    straight, broken = tmp_path / "straight", tmp_path / "broken"

    def trained(directory, **options):
        made = tiny.objective_of(kind, dropout=0.1)
        return learn(made, directory, steps=4, worker=Worker(), **options)

    expected = trained(straight)
    with pytest.raises(OSError, match="killed"):
        trained(broken, save_every_steps=2, stop=3)
    torch.manual_seed(12345)
    resumed = trained(broken)
    assert resumed.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(resumed[name], expected[name])] == []
    assert rows_without_times(broken) == rows_without_times(straight)
    begun = tiny.objective_of(kind, dropout=0.1).state_dict()
    moved = {name.split(".")[0] for name in begun if not torch.equal(begun[name], expected[name])}
    frozen = {"generator"} if kind == "second_stage" else set()
    assert moved == {name.split(".")[0] for name in begun} - frozen


def shallow(kind):
    """An objective of one layer, so that there is little to hold in parts."""
    return tiny.objective_of(kind, dropout=0.0, layers=1)


# Of each way in which networks share tables and layers.
SHARDED = ("electra", "mlm", "teams", "replace_mlm", "second_stage")


def as_alone(worker, directory, expected, in_parts):
    """What each process does: every objective on its share of the same batches, held by both
    workers, and some held in parts.
    """
    for kind, weights in expected.items():
        for sharded in (False, True) if kind in in_parts else (False,):
            made, place = shallow(kind), directory / f"{kind}-{sharded}"
            ours = learn(made, place, steps=2, worker=worker, fsdp=sharded)
            text = f"{kind}, sharded {sharded}: "
            tolerance = {"rtol": 1e-4, "atol": 1e-5, "msg": text.__add__}
            if worker.is_main or not sharded:  # the other has no whole weights
                assert_close(ours, weights, **tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("in_parts", [SHARDED, pytest.param(tiny.KINDS, marks=pytest.mark.long)])
def test_two_workers_learn_as_one_does(tmp_path, in_parts):
    expected = {}
    for kind in tiny.KINDS:
        alone = tmp_path / "alone" / kind
        expected[kind] = learn(shallow(kind), alone, steps=2, worker=Worker())
    both(as_alone, tmp_path, tmp_path, expected, in_parts, timeout_seconds=200)
