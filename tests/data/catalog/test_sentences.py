"""The entries of sentences are whole."""

from __future__ import annotations

import pytest

from road_ray.data.catalog.sentences import SENTENCES
from tests.data.entries import check


@pytest.mark.parametrize("entry", SENTENCES, ids=lambda entry: entry.name)
def test_an_entry_names_what_there_is(entry):
    check(entry)
