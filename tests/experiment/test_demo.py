"""The demo's stages; and all of it, tiny."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from road_ray.experiment import run as demo
from road_ray.experiment.config import ReproduceConfig
from road_ray.experiment.expand import Experiment
from road_ray.recipes.config import DemoConfig
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.train.config import MultitaskConfig
from road_ray.recipes.train.teaching_config import read_teacher_list

ROOT = Path(__file__).parents[2]


def test_stages_start_from_each_other_and_students_differ_in_labels_and_teachers_only(
    world, pretrained, tmp_path, monkeypatch
):
    students = demo.KEYS["students"]
    few = students | {"data": students["data"] | {"max_rows": 30}}
    monkeypatch.setitem(demo.KEYS, "students", few)
    monkeypatch.setattr(demo, "ROOT", str(world))
    config = DemoConfig(run_dir=tmp_path / "demo", seed=5, num_seeds=2)
    first = demo.stage(PretrainConfig, "pretrain", config)
    mixture = demo.stage(MultitaskConfig, "multitask", config)
    assert mixture.init == str(first.run_dir)
    assert first.seed == mixture.seed == 5
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "multitask").symlink_to(pretrained.directory)
    plan = Experiment(demo.stage(ReproduceConfig, "students", config))
    students = {(job.arm, job.config.seed): job.config for job in plan.jobs if job.scored}
    assert {*students} == {(arm, seed) for arm in plan.arms for seed in (100, 101)}
    assert {student.init for student in students.values()} == {str(mixture.run_dir)}
    assert {student.student.layers for student in students.values()} == {1}
    rows = {arm: students[arm, 100].data.max_rows for arm in plan.arms}
    assert rows == {"none": 30, "mean": 30, "correctness": 30, "all": None}
    assert len(students["mean", 100].data.unlabelled) == 1
    (ensemble,) = plan.ensembles
    assert (ensemble.num_teachers, ensemble.data.max_rows, ensemble.seed) == (3, None, 0)
    assert ensemble.student.layers is None


@pytest.mark.ray
@pytest.mark.guide
def test_the_story_runs_and_goes_on_where_it_stopped(cluster, road, world, tmp_path, monkeypatch):
    students = demo.KEYS["students"]
    few = {"data": students["data"] | {"max_rows": 6}, "training": {"steps": 2}}
    arms = {"ensembles": {"teachers": {"data.max_rows": None, "training.steps": 2}}}
    few["experiment"] = students["experiment"] | arms
    small = {name: demo.KEYS[name] | {"training": {"steps": 2}} for name in demo.KEYS}
    monkeypatch.setattr(demo, "KEYS", small | {"students": students | few})
    monkeypatch.setattr(demo, "ROOT", str(world))
    sizes = {"num_teachers": 2, "num_seeds": 1}
    command = ["demo", *(f"{key}={value}" for key, value in sizes.items()), "--run-dir", tmp_path]
    outcome = road(*command).good()
    for name in ("no KD", "mean KD", "Weighted KD", "no KD, all labels", "single teachers"):
        assert name in outcome.out
    assert len(json.loads((tmp_path / "table.json").read_text())["arms"]) == 4
    guide = (ROOT / "docs" / "guides" / "cluster.md").read_text("utf-8")
    begun = re.findall(r"runs/demo/(\S+)", guide)
    assert len(begun) >= 2
    assert [name for name in begun if not (tmp_path / name).exists()] == []
    teachers = tmp_path / "teachers" / "teachers-sst2"
    assert len(read_teacher_list(teachers / "teachers.json")[0]) == 2
    assert "Weighted KD" in (tmp_path / "report.html").read_text()
    stamp = (teachers / "teacher-0" / "metrics.jsonl").stat().st_mtime_ns
    assert road(*command).out == outcome.out
    assert (teachers / "teacher-0" / "metrics.jsonl").stat().st_mtime_ns == stamp
