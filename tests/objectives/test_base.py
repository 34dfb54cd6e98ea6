"""The shape that every objective has."""

from __future__ import annotations

import pytest
import torch

from road_ray.objectives.base import Losses, Objective, Term


class _Whole(Objective):
    def forward(self, batch):
        return Losses({"sum": Term(batch["x"].sum(), torch.tensor(1))})

    def export(self, directory):
        (directory / "done").touch()


class _Half(Objective):
    def forward(self, batch):
        return Losses({})


def test_an_objective_without_a_way_out_cannot_be_made():
    with pytest.raises(TypeError, match="export"):
        _Half()


def test_an_objective_is_dense_and_has_no_metrics_by_default():
    objective = _Whole()
    assert not objective.sparse
    losses = objective({"x": torch.ones(3)})
    assert losses.metrics == {}
    assert float(losses.terms["sum"].total) == 3


def test_ddp_finds_the_tensors_of_losses():
    from torch.nn.parallel.distributed import _find_tensors

    term = Term(torch.ones(()), torch.tensor(2))
    pair = torch.tensor(3), torch.tensor(4)
    tensors = list(_find_tensors(Losses({"a": term}, {"b": pair})))
    assert [id(tensor) for tensor in tensors] == [
        id(tensor) for tensor in (term.total, term.count, *pair)
    ]
