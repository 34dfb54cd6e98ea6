"""The shape that every objective has."""

from __future__ import annotations

import pytest
import torch

from road_ray.objectives.base import Losses, Term
from tests.objectives import every


@pytest.mark.parametrize("name", every.CASES)
def test_counts_are_known_before_the_forward_pass(name, tmp_path):
    objective, batch = every.case_of(name, tmp_path, layers=1)
    prepared = objective.prepare(batch)
    counts = {name: int(term.count) for name, term in objective(prepared).terms.items()}
    assert {name: int(count) for name, count in objective.counts(prepared).items()} == counts


def test_ddp_finds_the_tensors_of_losses():
    from torch.nn.parallel.distributed import _find_tensors

    term = Term(torch.ones(()), torch.tensor(2))
    pair = torch.tensor(3), torch.tensor(4)
    tensors = list(_find_tensors(Losses({"a": term}, {"b": pair})))
    assert [id(tensor) for tensor in tensors] == [
        id(tensor) for tensor in (term.total, term.count, *pair)
    ]
