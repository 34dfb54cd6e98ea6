"""Which keys a run directory is bound to."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from road_ray.config import to_yaml
from road_ray.config.base import resume_identity
from road_ray.errors import ConfigError
from road_ray.recipes.config import TrackingConfig
from road_ray.recipes.run_directory.recorded_config import RECORD, load_recorded, require_same
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.train.config import DistillConfig, FinetuneConfig
from road_ray.recipes.train.teaching_config import DistillationConfig
from road_ray.training.config import EarlyStoppingConfig, TrainingConfig


@pytest.mark.parametrize("patience", [None, 2])
def test_the_interval_of_evaluations_decides_only_where_they_may_end_a_training(tmp_path, patience):
    def config(every: int) -> FinetuneConfig:
        stopping = EarlyStoppingConfig(patience=patience)
        training = TrainingConfig(evaluate_every_steps=every, early_stopping=stopping)
        return FinetuneConfig(init="x", run_dir=tmp_path, training=training)

    (tmp_path / RECORD).write_text(to_yaml(config(10)))
    decides = patience is not None
    assert (resume_identity(config(10)) != resume_identity(config(500))) == decides
    with (
        pytest.raises(ConfigError, match=r"training\.evaluate_every_steps: there 10, asked 500")
        if decides
        else nullcontext()
    ):
        require_same(config(500), tmp_path)
    require_same(config(10), tmp_path)


def test_resources_of_teachers_and_trackers_may_differ_when_a_run_is_resumed(tmp_path):
    def config(**resources: float) -> DistillConfig:
        return DistillConfig(distillation=DistillationConfig(resources=resources))

    (tmp_path / RECORD).write_text(to_yaml(config(teacher=1)))
    moved = config(accelerator=2)
    require_same(moved.model_copy(update={"tracking": TrackingConfig(group="b")}), tmp_path)


def test_load_recorded_names_the_keys_of_another_version_and_advises_no_edit(tmp_path):
    path = tmp_path / "sweep.resolved.yaml"
    path.write_text("verb: finetune\nmetric: eval/sst2/accuracy\nat_once: 1\n")
    with pytest.raises(ConfigError) as refused:
        load_recorded(SweepConfig, path)
    message = str(refused.value)
    assert f"{path}:3  at_once = 1" in message
    assert "resume with the version that began this one" in message
    assert "remove" not in message
