"""The contracts of the parts, as road_ray ships them, and what each computes."""

from pathlib import Path

import numpy as np
import pytest
from my_road_parts import kappa

from road_ray.testing import check_metric, check_reader, check_rule, check_tracker

FILES = Path(__file__).parents[1]


def test_parts_keep_their_contracts():
    check_rule("my_road_parts:agreement")
    check_metric("my_road_parts:kappa")
    check_reader("my_road_parts:fasttext", FILES / "reviews-dev.txt", ["text", "label"])
    check_tracker("my_road_parts:csv_tracker")


def test_kappa_is_agreement_beyond_chance():
    gold, predicted = np.array([0.0, 0, 1, 1]), np.array([0.0, 0, 0, 1])
    assert kappa(gold, predicted) == pytest.approx(0.5)  # (3/4 - 1/2) / (1 - 1/2)
