"""Tables are looked after without hurting those who use them."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from road_ray.distillation.answers.maintenance import find_damage, list_teachers
from road_ray.distillation.answers.teacher_tables import TeacherTables
from road_ray.errors import ConfigError, DataError
from tests.distillation.answers.test_teacher_tables import NLI, WHO, filled, read

PRUNE = ("data", "store", "prune")
OTHER = WHO | {"weights_sha256": "f" * 64, "directory": "t1"}


@pytest.fixture
def root(tmp_path):
    """Two teachers, one of them with two tables."""
    filled(tmp_path, 1, 2, 9)
    filled(tmp_path, 3, 4)
    filled(tmp_path, 1, 9, who=OTHER)
    return tmp_path


def test_what_is_kept_is_listed(root):
    first, second = list_teachers(root)
    assert (first.num_rows, second.num_rows) == (5, 2)
    assert (len(first.tables), len(second.tables)) == (2, 1)
    assert second.manifest["directory"] == "t1"
    assert first.unused_days < 1
    assert [t.directory for t in list_teachers(root, ["nli-fff"])] == [second.directory]


def test_a_run_that_has_a_table_open_keeps_it(root):
    tables = TeacherTables(root, WHO, NLI)
    shutil.rmtree(list_teachers(root)[0].directory)
    assert read(tables, 1, 4)


def test_damage_is_found(root):
    first, _ = list_teachers(root)
    assert find_damage(first) == []
    values = first.tables[0] / "values.npy"
    values.write_bytes(values.read_bytes()[:-1] + b"x")
    (problem,) = find_damage(first)
    assert first.tables[0].name in problem


def test_only_what_is_long_unused_goes(root, road):
    first, _ = list_teachers(root)
    ago = time.time() - 10 * 86400
    os.utime(first.directory / "manifest.json", (ago, ago))
    assert f"removed {first.directory.name}" in road(*PRUNE, root, "--unused-days", "5").out
    assert len(list_teachers(root)) == 1


def test_no_answers_and_no_such_teacher(root, tmp_path_factory):
    with pytest.raises(ConfigError, match="no answers of teachers"):
        list_teachers(tmp_path_factory.mktemp("empty"))
    with pytest.raises(ConfigError, match="no teacher of this directory"):
        list_teachers(root, ["sst2-"])


@pytest.mark.parametrize("content", ["", "null", "[]", "{"])
def test_a_manifest_that_is_none_is_named(content, root):
    manifest = list_teachers(root)[0].directory / "manifest.json"
    manifest.write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json"):
        list_teachers(root)
