"""``road data store``, from listing to removing."""

from __future__ import annotations

import json

import pytest

from tests.distillation.test_stored_ensemble import filled


@pytest.fixture
def root(tmp_path):
    for number in range(2):
        filled(tmp_path, number)
    return tmp_path


def test_answers_are_listed_verified_and_pruned(road, root):
    (line,) = json.loads(road("data", "store", "ls", root, "--json").out)
    assert (line["rows"], line["tables"], line["task"]) == (2, 2, "nli")
    assert "2 tables, 0 damaged" in road("data", "store", "verify", root).out
    assert road("data", "store", "prune", root).code == 2  # nothing is named
    assert f"removed {line['name']}" in road("data", "store", "prune", root, line["name"]).out
    result = road("data", "store", "ls", root)
    assert result.code == 2
    assert "no answers of teachers" in result.err


def test_a_damaged_table_is_told_by_the_exit_code(road, root):
    victim = next(root.glob("*/table-*/values.npy"))
    victim.write_bytes(b"")
    assert "damaged" in road("data", "store", "ls", root).out
    result = road("data", "store", "verify", root)
    assert result.code == 3
    assert victim.parent.name in result.err
