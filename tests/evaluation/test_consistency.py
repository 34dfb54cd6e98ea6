"""Consistency of predictions on paraphrases, against hand-computed values."""

from __future__ import annotations

import pytest

from road_ray.errors import DataError
from road_ray.evaluation.consistency import consistency, origin


def test_ids_lead_back_to_the_original():
    assert origin("56e-high-conf-turk0") == origin("56e_paraphrase") == origin("56e") == "56e"


def test_pairs_are_counted_by_hand():
    original = {"a": "in Rome", "b": "", "c": "Ann"}
    changed = {"a-high-conf-turk0": "Rome", "a-high-conf-turk1": "in Rome", "b": "", "z": "x"}
    result = consistency(original, changed)
    assert result["pairs"] == 3
    assert result["same"] == pytest.approx(200 / 3)
    assert result["overlap"] == pytest.approx(100 * (2 / 3 + 1 + 1) / 3)


def test_sets_that_have_nothing_in_common_are_refused():
    with pytest.raises(DataError, match="none of 1 ids comes from one of the 1 originals"):
        consistency({"a": "x"}, {"b": "x"})
