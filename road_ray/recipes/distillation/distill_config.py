"""What a distillation is told."""

from __future__ import annotations

from pathlib import Path

from road_ray.recipes.distillation.config import DistillationConfig, WeightingConfig
from road_ray.recipes.distillation.teacher_list import teacher_files
from road_ray.recipes.finetuning.finetune import FinetuneConfig
from road_ray.recipes.inputs import TEACHERS, Inputs


class DistillConfig(FinetuneConfig):
    """A student run: fine-tuning plus teachers."""

    run_dir: Path = Path("runs/distill")
    distillation: DistillationConfig = DistillationConfig()
    weighting: WeightingConfig = WeightingConfig()

    def inputs(self) -> Inputs:
        return {**super().inputs(), TEACHERS: teacher_files(self.distillation.teachers)}
