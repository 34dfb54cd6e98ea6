"""The shape that every objective has."""

from __future__ import annotations

import pytest
import torch

from road_ray.objectives.base import Objective, Term


class _Whole(Objective):
    def forward(self, batch):
        return {"sum": Term(batch["x"].sum(), torch.tensor(1))}

    def export(self, directory):
        (directory / "done").touch()


class _Half(Objective):
    def forward(self, batch):
        return {}


def test_an_objective_without_a_way_out_cannot_be_made():
    with pytest.raises(TypeError, match="export"):
        _Half()


def test_an_objective_is_dense_and_has_no_gauges_unless_it_says_so():
    objective = _Whole()
    assert not objective.sparse
    assert objective.gauges == {}
    assert float(objective({"x": torch.ones(3)})["sum"].total) == 3
