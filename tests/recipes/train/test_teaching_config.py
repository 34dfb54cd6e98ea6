"""Teachers and their weights, as configured and as listed."""

import json

import pytest
import torch

from road_ray.distillation import weighting
from road_ray.errors import ConfigError
from road_ray.recipes.train.config import DistillConfig
from road_ray.recipes.train.find_teachers import locate_teachers
from road_ray.recipes.train.teachers import used_weighting, weighting_rule
from road_ray.recipes.train.teaching_config import (
    RULES,
    DistillationConfig,
    WeightingConfig,
    read_teacher_list,
    resolve_teachers,
)


def test_a_teacher_of_the_hub_is_fetched(teachers, monkeypatch):
    fetched = str(teachers.directory / "teacher-0" / "hf")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: fetched)
    config = DistillConfig(distillation=DistillationConfig(teachers=("somebody/sst2",)))
    assert locate_teachers(config) == {"sst2": ([fetched], 1)}


def test_options_of_spans_reach_the_rule_and_regressions_have_the_mean():
    logits = torch.tensor([[[[9.0, 0, 0], [9, 0, 0]]], [[[9.0, 0, 0], [0, 9, 0]]]])
    gold = torch.tensor([[0, 1]])
    for way, weights in (("independent", [1, 1]), ("joint", [0.75, 1.25])):
        rule = weighting_rule(WeightingConfig(span_correctness=way), num_teachers=3)
        assert rule(logits, gold)[:, 0, 0].tolist() == weights
    mean = weighting_rule(WeightingConfig(), num_teachers=3)
    assert mean(torch.zeros(3, 2, 1), torch.zeros(2)).eq(1).all()


def test_one_teacher_has_the_mean_and_several_have_the_correctness_rule_of_all_that_there_are():
    assert set(RULES) == {*weighting.RULES}
    assert used_weighting(WeightingConfig(), 1).rule == "mean"
    assert used_weighting(WeightingConfig(), 2).rule == "correctness"
    assert used_weighting(WeightingConfig(rule="correctness"), 1).rule == "correctness"


def test_a_list_is_sorted_by_fold_and_has_equally_many_models_of_each(tmp_path):
    path = tmp_path / "teachers.json"

    def written(*folds: int, suffix: str = "") -> str:
        teachers = [{"directory": f"d{n}{suffix}", "fold": fold} for n, fold in enumerate(folds)]
        path.write_text(json.dumps({"num_folds": 2, "teachers": teachers}))
        return str(path)

    listed = written(1, 0, 1, 0, 1, 0)
    assert read_teacher_list(path) == (["d1", "d3", "d5", "d0", "d2", "d4"], 2)
    for names, total, per_row, folds in (
        ((listed,), 6, 3, 2),
        ((listed, "answers.csv"), 6, 4, 2),
        (("a", "b"), 2, 2, 1),
        (("a", "b.csv", "datasets/c/d"), 1, 3, 1),
    ):
        settings = DistillationConfig(teachers=names)
        assert DistillConfig(distillation=settings).total_teachers == total
        found = resolve_teachers(names)
        assert (found.per_row, found.folds) == (per_row, folds)
    with pytest.raises(ConfigError, match="2 folds, which stand alone"):
        resolve_teachers([listed, "a"])
    for folds, suffix in (((0, 1, 1), ""), ((0, 2), ""), ((0, 0), ""), ((0, 1), ".csv")):
        written(*folds, suffix=suffix)
        with pytest.raises(ConfigError, match="equally many models"):
            read_teacher_list(path)


def test_teachers_are_named_by_themselves_or_in_a_list_that_may_move_with_them(tmp_path):
    (tmp_path / "near").mkdir()
    path = tmp_path / "teachers.json"
    path.write_text(json.dumps({"teachers": [{"directory": "near"}, {"directory": "far"}]}))
    assert resolve_teachers([str(path)]) == ([str(tmp_path / "near"), "far"], 1)
    beside = resolve_teachers(["c.csv", "a", str(path)])
    assert beside == (["a", str(tmp_path / "near"), "far", "c.csv"], 1)


@pytest.mark.parametrize(
    "content",
    [
        *("", "null", "[]", "{}", "1", '{"teachers": []}', '{"teachers": [1]}'),
        *('{"teachers": 1e400}', "[" * 100_000),
    ],
)
def test_what_is_no_list_of_teachers_is_named(content, tmp_path):
    path = tmp_path / "teachers.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"teachers\.json.*\n.*a list of model directories"):
        read_teacher_list(path)
    with pytest.raises(ConfigError, match=r"init = .*\n.* finished `road teachers`\n"):
        read_teacher_list(path, "init")
