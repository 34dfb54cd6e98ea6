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
    teachers_config,
)
from road_ray.recipes.config import DemoConfig
from road_ray.recipes.distillation.teacher_list import read_teacher_list
from road_ray.recipes.finetuning.train_teachers import single_teachers

ROOT = Path(__file__).parents[2]


def test_stages_start_from_each_other_and_students_differ_in_their_teachers_only(tmp_path):
    config = DemoConfig(run_dir=tmp_path, root="somewhere", seed=5)
    assert multitask_config(config).init == str(pretrain_config(config).run_dir)
    plain = finetune_config(config, "none", 100)
    assert plain.init == str(multitask_config(config).run_dir)
    first, other = (distill_config(config, rule, 100) for rule in ("mean", "correctness"))
    for student in (first, other):
        assert student.data.model_dump(exclude={"unlabelled"}) == plain.data.model_dump()
        assert student.optimizer == plain.optimizer
        assert student.training == plain.training
        assert student.seed == plain.seed == 100
        assert student.distillation.num_teachers == 3
    assert first.data.unlabelled == other.data.unlabelled != ()
    assert (first.weighting.rule, other.weighting.rule) == ("mean", "correctness")
    assert first.run_dir != other.run_dir


def test_students_have_few_labels_and_one_layer_teachers_all_labels_and_all_layers(tmp_path):
    config = DemoConfig(run_dir=tmp_path)
    few, every = (finetune_config(config, labels, 100) for labels in ("none", "all"))
    teacher = single_teachers(teachers_config(config))[1]
    assert (few.data.max_rows, every.data.max_rows, teacher.data.max_rows) == (
        demo.NUM_LABELS,
        None,
        None,
    )
    assert (few.student.layers, every.student.layers, teacher.student.layers) == (1, 1, None)
    assert few.training == every.training
    assert teacher.seed == 1
    assert teacher.run_dir == tmp_path / "teachers" / "teacher-1"


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
    assert "has ended, 7 of 7" in caplog.text
    for name in ("no KD", "mean KD", "Weighted KD", "no KD, all labels", "single teachers"):
        assert name in outcome.out
    assert len(json.loads((tmp_path / "table.json").read_text())["arms"]) == 4
    result, num_folds = read_teacher_list(tmp_path / "teachers" / "teachers.json")
    assert num_folds == 1
    assert [Path(item).resolve() for item in result] == [
        (tmp_path / "teachers" / f"teacher-{number}" / "hf").resolve() for number in range(2)
    ]
    guide = (ROOT / "docs" / "guides" / "cluster.md").read_text("utf-8")
    begun = re.findall(r"runs/demo/(\S+)", guide)
    assert len(begun) >= 2
    assert [name for name in begun if not (tmp_path / name).exists()] == []
    page = (tmp_path / "report.html").read_text()
    assert "Weighted KD" in page
    stamp = (tmp_path / "teachers" / "teacher-0" / "metrics.jsonl").stat().st_mtime_ns
    assert road(*command).out == outcome.out
    assert (tmp_path / "teachers" / "teacher-0" / "metrics.jsonl").stat().st_mtime_ns == stamp
