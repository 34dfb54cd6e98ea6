"""A store is looked after without hurting those who use it."""

from __future__ import annotations

import os
import shutil
import time

import numpy as np
import pytest

from road_ray.distillation.logit_store.maintenance import (
    find_damage,
    list_teachers,
    merge,
    prune,
    remove_damaged,
    select_teachers,
)
from road_ray.distillation.logit_store.teacher_store import TeacherStore
from road_ray.errors import ConfigError, DataError, ResourceError
from tests.distillation.logit_store.test_teacher_store import NLI, WHO, answers, rows

OTHER = WHO | {"weights_sha256": "f" * 64, "directory": "t1"}


@pytest.fixture
def root(tmp_path):
    """Two teachers, of one two shards with a row in common."""
    for who, parts in ((WHO, ((1, 2), (3, 4))), (OTHER, ((1,),))):
        stores = [TeacherStore(tmp_path, who, NLI) for _ in parts]
        for store, part in zip(stores, parts, strict=True):
            store.add(rows(*part, 9), answers(*part, part[0]))
        for store in stores:
            store.close()
    return tmp_path


def test_what_is_kept_is_listed(root):
    first, second = list_teachers(root)
    assert (first.num_rows, second.num_rows) == (6, 2)
    assert (len(first.shards), len(second.shards)) == (2, 1)
    assert second.manifest["directory"] == "t1"
    assert first.unused_days < 1
    assert select_teachers([first, second], ["nli-fff"]) == [second]
    assert select_teachers([first, second], []) == [first, second]


def test_merging_keeps_every_row_once_with_its_oldest_answer(root):
    before = TeacherStore(root, WHO, NLI)
    keys = rows(1, 2, 3, 4, 9)
    before_merge = before.read(keys)
    before.close()
    first, _ = list_teachers(root)
    assert merge(first) == (1, 5)
    after = TeacherStore(root, WHO, NLI)
    assert len(list_teachers(root)[0].shards) == 1
    for one, other in zip(after.read(keys), before_merge, strict=True):
        assert (one == other).all()
    after.close()
    assert merge(list_teachers(root)[0]) == (1, 5)


def test_what_a_run_has_open_is_not_touched(root):
    store = TeacherStore(root, WHO, NLI)
    first, second = list_teachers(root)
    with pytest.raises(ResourceError, match="a run has it open"):
        merge(first)
    with pytest.raises(ResourceError, match="a run has it open"):
        list(prune([first]))
    assert list(prune([second])) == [second]
    assert (np.concatenate(store.read(rows(1))) == answers(1)).all()


def test_damage_is_found_put_aside_and_removed(root):
    first, _ = list_teachers(root)
    assert find_damage(first) == []
    first.shards[0].write_bytes(b"garbled")
    assert len(find_damage(first)) == 1
    assert len(find_damage(first, put_aside=True)) == 1
    again = list_teachers(root)[0]
    assert (len(again.shards), again.num_damaged) == (1, 1)
    assert remove_damaged(again) == 1
    assert list_teachers(root)[0].num_damaged == 0


def test_a_damaged_shard_is_not_merged_but_told_with_its_remedy(root):
    first, _ = list_teachers(root)
    first.shards[0].write_bytes(b"garbled")
    message = rf"(?s)damaged shard: .*verify {root} {first.directory.name} --put-aside"
    with pytest.raises(DataError, match=message):
        merge(first)
    assert list_teachers(root)[0].shards == first.shards
    find_damage(first, put_aside=True)
    assert merge(list_teachers(root)[0]) == (1, 3)


def test_what_a_killed_removal_left_is_no_teacher_and_goes_with_the_next(root):
    first, second = list_teachers(root)
    left = root / f".{first.directory.name}.gone"
    shutil.copytree(first.directory, left)
    other = root / ".earlier.gone"
    shutil.copytree(first.directory, other)
    assert [teacher.directory for teacher in list_teachers(root)] == [
        first.directory,
        second.directory,
    ]
    assert list(prune([first])) == [first]
    assert [path for path in root.iterdir() if path.is_dir()] == [second.directory]


def test_only_what_is_long_unused_goes(root):
    first, _ = list_teachers(root)
    ago = time.time() - 10 * 86400
    os.utime(first.directory / "manifest.json", (ago, ago))
    gone = list(prune(list_teachers(root), unused_days=5))
    assert [item.directory for item in gone] == [first.directory]
    assert len(list_teachers(root)) == 1


def test_no_store_and_no_such_teacher(root, tmp_path_factory):
    with pytest.raises(ConfigError, match="no store of logits"):
        list_teachers(tmp_path_factory.mktemp("empty"))
    with pytest.raises(ConfigError, match="no teacher of this store"):
        select_teachers(list_teachers(root), ["sst2-"])


@pytest.mark.parametrize("content", ["", "null", "[]", "{"])
def test_a_manifest_that_is_none_is_named(content, root):
    manifest = list_teachers(root)[0].directory / "manifest.json"
    manifest.write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json"):
        list_teachers(root)


def test_a_directory_in_the_place_of_a_shard_is_damage(root):
    first, _ = list_teachers(root)
    first.shards[0].unlink()
    first.shards[0].mkdir()
    assert find_damage(first) == [f"{first.shards[0].name}: it is no file"]
    with pytest.raises(DataError, match=first.shards[0].name):
        merge(first)
