"""What holds for every pre-training objective as it is trained; a new one inherits these tests."""

import pytest
from torch.testing import assert_close

from road_ray.training.loop import train
from road_ray.training.worker import Worker
from tests.objectives import every
from tests.pair import both
from tests.training import conftest as small


def learn(objective, directory, *, worker, **options):
    """The weights after two updates of eight rows."""
    stream = small.stream(
        small.rows(), rank=worker.rank, size=worker.size, noise_channels=objective.noise_channels
    )

    given = {"rates": {"peak_lr": 3e-3}, "worker": worker, "precision": "fp32"}
    training = small.training(directory, steps=2, **given, **options)
    train(objective, lambda start: ([batch] for batch in stream.since(start)), training)
    return objective.state_dict()


def shallow(kind):
    """An objective of one layer, so that there is little to hold in parts."""
    return every.objective_of(kind, dropout=0.0, layers=1)


# Of each way in which networks share tables and layers.
SHARDED = ("electra", "mlm", "teams", "replace_mlm", "second_stage")


def as_alone(worker, directory, expected, in_parts):
    """What each process does: every objective on its share of the same batches, held by both
    workers, and some held in parts.
    """
    for kind, weights in expected.items():
        for sharded in (False, True) if kind in in_parts else (False,):
            made, place = shallow(kind), directory / f"{kind}-{sharded}"
            ours = learn(made, place, worker=worker, fsdp=sharded)
            text = f"{kind}, sharded {sharded}: "
            tolerance = {"rtol": 1e-4, "atol": 1e-5, "msg": text.__add__}
            if worker.is_main or not sharded:  # the other has no whole weights
                assert_close(ours, weights, **tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("in_parts", [SHARDED, pytest.param(every.KINDS, marks=pytest.mark.long)])
def test_two_workers_learn_as_one_does(tmp_path, in_parts):
    expected = {}
    for kind in every.KINDS:
        alone = tmp_path / "alone" / kind
        expected[kind] = learn(shallow(kind), alone, worker=Worker())
    both(as_alone, tmp_path, tmp_path, expected, in_parts, timeout_seconds=200)
