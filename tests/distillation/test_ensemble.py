"""Each row is asked of the teachers that have not seen it, and of no others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from road_ray.distillation.ensemble import Ensemble, OutOfFoldEnsemble
from road_ray.errors import ConfigError, DataError

FOLDS = np.array([0, 1, 0, 2, 1, 1], dtype=np.int32)


class Echo(Ensemble):
    """Teachers that answer their fold and the row's first id, and keep what they were asked."""

    size = 2

    def __init__(self, fold: int, size: int = 2) -> None:
        self.fold, self.size, self.rows_seen = fold, size, []

    def submit(self, batch):
        self.rows_seen += (batch["input_ids"][:, 0] - 10).tolist()
        return batch["input_ids"][:, 0]

    def gather(self, handle):
        answer = torch.stack([torch.full_like(handle, self.fold), handle], -1).float()
        return answer.expand(self.size, *answer.shape)


def batch(*rows: int) -> dict:
    numbers = torch.tensor(rows)
    return {"rows": numbers, "input_ids": numbers[:, None] + 10, "labels": numbers % 2}


@pytest.mark.parametrize("rows", [(0, 1, 2, 3, 4, 5), (5, 3, 1, 0), (2, 0), (4,)])
def test_answers_come_back_in_the_order_of_the_batch_from_the_right_fold(rows):
    members = [Echo(fold) for fold in range(3)]
    ensemble = OutOfFoldEnsemble(members, FOLDS)
    answers = ensemble.gather(ensemble.submit(batch(*rows)))
    assert ensemble.size == 2
    assert answers.shape == (2, len(rows), 2)
    assert answers[0, :, 0].tolist() == [float(FOLDS[row]) for row in rows]
    assert answers[1, :, 1].tolist() == [row + 10.0 for row in rows]
    for member in members:
        assert all(FOLDS[row] == member.fold for row in member.rows_seen)
    assert sum(len(member.rows_seen) for member in members) == len(rows)


def test_teachers_that_do_not_fit_the_folds_are_refused():
    with pytest.raises(ConfigError, match="equally many"):
        OutOfFoldEnsemble([Echo(0), Echo(1, size=3)], FOLDS)
    with pytest.raises(ConfigError, match="fold 2"):
        OutOfFoldEnsemble([Echo(0), Echo(1)], FOLDS)


def test_a_batch_that_does_not_tell_its_rows_is_refused():
    with pytest.raises(DataError, match="rows"):
        OutOfFoldEnsemble([Echo(0)], np.zeros(3, np.int32)).submit({"input_ids": torch.ones(1, 2)})
