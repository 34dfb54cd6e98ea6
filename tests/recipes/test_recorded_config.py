"""Which keys a run directory is bound to."""

from __future__ import annotations

from pathlib import Path

from road_ray.recipes.distillation.config import DistillationConfig, DistillConfig
from road_ray.recipes.finetuning.config import FinetuneConfig
from road_ray.recipes.recorded_config import allowed_inputs, deciding_digest


def test_deciding_digest_changes_with_what_another_run_is_refused_for():
    plain = deciding_digest(FinetuneConfig())
    assert deciding_digest(FinetuneConfig(run_dir=Path("elsewhere"), workers=2)) == plain
    assert deciding_digest(FinetuneConfig(init="runs/x")) != plain


def test_allowed_inputs_are_teachers_where_others_are_allowed():
    assert allowed_inputs(FinetuneConfig()) == allowed_inputs(DistillConfig()) == set()
    settings = DistillationConfig(allow_other_teachers=True)
    assert allowed_inputs(DistillConfig(distillation=settings)) == {"teachers"}
