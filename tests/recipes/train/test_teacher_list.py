"""Teachers that are named in a list, fold after fold."""

from __future__ import annotations

import json

import pytest

from road_ray.errors import ConfigError
from road_ray.recipes.train.teaching_config import (
    read_teacher_list,
    resolve_teachers,
)


def test_a_list_is_sorted_by_fold_and_must_have_equally_many(tmp_path):
    path = tmp_path / "teachers.json"

    def written(*folds: int, count: int = 2) -> str:
        teachers = [{"directory": f"d{n}", "fold": fold} for n, fold in enumerate(folds)]
        path.write_text(json.dumps({"num_folds": count, "teachers": teachers}))
        return str(path)

    written(1, 0, 1, 0)
    assert read_teacher_list(path) == (["d1", "d3", "d0", "d2"], 2)
    assert resolve_teachers([str(path)])[1] == 2
    assert resolve_teachers(["a", "b"])[1] == 1
    for folds in ((0, 1, 1), (0, 2), (0, 0)):
        written(*folds)
        with pytest.raises(ConfigError, match="equally many"):
            read_teacher_list(path)


def test_teachers_are_named_by_themselves_or_in_a_list_that_may_move_with_them(tmp_path):
    assert resolve_teachers(["a", "b.json"]) == (["a", "b.json"], 1)
    (tmp_path / "near").mkdir()
    path = tmp_path / "teachers.json"
    path.write_text(json.dumps({"teachers": [{"directory": "near"}, {"directory": "far"}]}))
    assert resolve_teachers([str(path)]) == ([str(tmp_path / "near"), "far"], 1)


@pytest.mark.parametrize(
    "content",
    ["", "null", "[]", "{}", "1", '{"teachers": [1]}', '{"teachers": 1e400}', "[" * 100_000],
)
def test_what_is_no_list_of_teachers_is_named(content, tmp_path):
    path = tmp_path / "teachers.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"teachers\.json"):
        read_teacher_list(path)
