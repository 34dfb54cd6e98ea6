"""What a distillation is told."""

from __future__ import annotations

from road_ray.recipes.distillation.config import DistillConfig
from road_ray.recipes.finetuning.config import FinetuneConfig


def test_a_student_run_is_fine_tuning_plus_teachers():
    student, plain = DistillConfig().model_dump(), FinetuneConfig().model_dump()
    assert student.keys() - plain.keys() == {"distillation", "weighting"}
    assert {key for key in plain if student[key] != plain[key]} == {"data", "run_dir"}
    assert student["data"].keys() - plain["data"].keys() == {"unlabelled"}
