"""A term is what it says."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from road_ray.objectives.term import Term


def test_a_term_weighs_one_unless_it_says_so_and_does_not_change():
    term = Term(torch.tensor(6.0), torch.tensor(3))
    assert term.weight == 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        term.weight = 2.0
