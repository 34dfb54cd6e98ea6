"""``road data store``, from listing to removing."""

from __future__ import annotations

import json

import pytest

from road_ray.distillation.logit_store.teacher_store import TeacherStore
from tests.distillation.logit_store.test_teacher_store import NLI, WHO, answers, rows


@pytest.fixture
def root(tmp_path):
    for number in range(2):
        store = TeacherStore(tmp_path, WHO, NLI)
        store.add(rows(number), answers(number))
        store.close()
    return tmp_path


def test_a_store_is_listed_inspected_verified_merged_and_pruned(road, root):
    (line,) = json.loads(road("data", "store", "ls", root, "--json").out)
    assert (line["rows"], line["shards"], line["task"]) == (2, 2, "nli")
    (identity,) = json.loads(road("data", "store", "inspect", root).out)
    assert identity["weights_sha256"] == "a" * 64
    assert "2 shards, 0 damaged" in road("data", "store", "verify", root).out
    assert "2 rows, 2 -> 1 shards" in road("data", "store", "merge", root, line["name"][:6]).out
    assert "removed 0 damaged" in road("data", "store", "prune", root).out
    assert f"removed {line['name']}" in road("data", "store", "prune", root, line["name"]).out
    result = road("data", "store", "ls", root)
    assert result.code == 2
    assert "no store of logits" in result.err


def test_a_damaged_shard_is_told_by_the_exit_code(road, root):
    victim = next(root.glob("*/shard-*"))
    victim.write_bytes(b"")
    assert "damaged" in road("data", "store", "ls", root).out
    result = road("data", "store", "verify", root)
    assert result.code == 3
    assert victim.name in result.err
    assert road("data", "store", "verify", root, "--put-aside").code == 3
    assert road("data", "store", "verify", root).code == 0
