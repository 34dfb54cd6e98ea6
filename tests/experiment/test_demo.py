"""The story's table and its stages; and all of it, tiny."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from road_ray.experiment import demo
from road_ray.experiment.demo import (
    distill_config,
    finetune_config,
    multitask_config,
    pretrain_config,
    table,
    teacher_config,
)
from road_ray.recipes.config import DemoConfig
from road_ray.recipes.distillation.teacher_list import read_teacher_list
from road_ray.recipes.run_directory.run import Run
from road_ray.reporting.records.comparison_table import ComparisonTable

ROOT = Path(__file__).parents[2]


def run(directory, figure):
    return Run(directory, {"eval/sst2/accuracy": figure})


def test_the_table_has_means_and_tests_over_seeds_and_the_teachers(tmp_path):
    students = {
        "no KD": [run(tmp_path, 10.0), run(tmp_path, 14.0)],
        "mean KD": [run(tmp_path, 11.0), run(tmp_path, 16.0)],
    }
    made = ComparisonTable.model_validate(table([run(tmp_path, 20.0)], students))
    assert [arm.name for arm in made.arms] == ["none", "mean"]
    figure = made.arms[0].figures["sst2/accuracy"]
    assert (figure.mean, figure.deviation) == (12.0, pytest.approx(8**0.5))
    assert figure.values == {"100": 10.0, "101": 14.0}
    (test,) = made.tests
    assert (test.arm, test.against, test.difference) == ("mean", "none", 1.5)
    assert made.ensembles[0].figures["sst2/accuracy"].teachers == 20.0


def test_stages_start_from_each_other_and_students_differ_in_their_teachers_only(tmp_path):
    config = DemoConfig(run_dir=tmp_path, root="somewhere", seed=5)
    assert multitask_config(config).init == str(pretrain_config(config).run_dir)
    plain = finetune_config(config, "none", 100)
    assert plain.init == str(multitask_config(config).run_dir)
    first, other = (
        distill_config(config, rule, 100, ["a", "b"]) for rule in ("mean", "correctness")
    )
    for student in (first, other):
        assert student.data.model_dump(exclude={"unlabelled"}) == plain.data.model_dump()
        assert student.optimizer == plain.optimizer
        assert student.training == plain.training
        assert student.seed == plain.seed == 100
        assert student.distillation.num_teachers == 2
    assert first.data.unlabelled == other.data.unlabelled != ()
    assert (first.weighting.rule, other.weighting.rule) == ("mean", "correctness")
    assert first.run_dir != other.run_dir


def test_students_have_few_labels_and_one_layer_teachers_all_labels_and_all_layers(tmp_path):
    config = DemoConfig(run_dir=tmp_path)
    few, every = (finetune_config(config, labels, 100) for labels in ("none", "all"))
    teacher = teacher_config(config, 1)
    assert (few.data.max_rows, every.data.max_rows, teacher.data.max_rows) == (
        demo.NUM_LABELS,
        None,
        None,
    )
    assert (few.student.layers, every.student.layers, teacher.student.layers) == (1, 1, None)
    assert few.training == every.training
    assert teacher.seed == 1
    assert teacher.run_dir == tmp_path / "teacher-1"


@pytest.mark.ray
@pytest.mark.guide
def test_the_story_runs_and_goes_on_where_it_stopped(
    cluster, road, world, tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(demo, "_STEPS", dict.fromkeys(demo._STEPS, 2))
    monkeypatch.setattr(demo, "NUM_LABELS", 6)
    sizes = {"num_teachers": 2, "num_seeds": 1, "root": world}
    command = ["demo", *(f"{key}={value}" for key, value in sizes.items()), "--run-dir", tmp_path]
    with caplog.at_level("INFO", logger="road_ray"):
        outcome = road(*command)
    assert outcome.code == 0, outcome.err
    for number in range(1, 8):
        assert f"stage {number} of 7: " in caplog.text
        assert f"stage {number} of 7 took " in caplog.text
    for name in ("no KD", "mean KD", "Weighted KD", "no KD, all labels", "single teachers"):
        assert name in outcome.out
    assert len(json.loads((tmp_path / "table.json").read_text())["arms"]) == 4
    result, num_folds = read_teacher_list(tmp_path / "teachers" / "teachers.json")
    assert num_folds == 1
    assert [Path(item).resolve() for item in result] == [
        (tmp_path / f"teacher-{number}" / "hf").resolve() for number in range(2)
    ]
    guide = (ROOT / "docs" / "guides" / "cluster.md").read_text("utf-8")
    begun = re.findall(r"runs/demo/(\S+)", guide)
    assert len(begun) >= 2
    assert [name for name in begun if not (tmp_path / name).exists()] == []
    page = (tmp_path / "report.html").read_text()
    assert "Weighted KD" in page
    stamp = (tmp_path / "teacher-0" / "metrics.jsonl").stat().st_mtime_ns
    assert road(*command).out == outcome.out
    assert (tmp_path / "teacher-0" / "metrics.jsonl").stat().st_mtime_ns == stamp
