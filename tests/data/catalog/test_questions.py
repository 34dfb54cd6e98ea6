"""The entries of questions are whole."""

from __future__ import annotations

import pytest

from road_ray.data.catalog.questions import QUESTIONS
from tests.data.entries import check


@pytest.mark.parametrize("entry", QUESTIONS, ids=lambda entry: entry.name)
def test_an_entry_names_what_there_is(entry):
    check(entry)
