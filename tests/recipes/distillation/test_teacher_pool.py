"""Settings that no pool of teachers can have, refused before its first actor."""

from __future__ import annotations

import json

import pytest

from road_ray.config import load
from road_ray.errors import ConfigError
from road_ray.recipes.distillation.config import DistillationConfig
from road_ray.recipes.distillation.teacher_pool import start_teacher_pool
from road_ray.recipes.multitask.config import MixTeachingConfig
from tests.distributed.small import NLI


@pytest.fixture
def folds(tmp_path):
    """A ``teachers.json`` with one teacher for each of two folds."""
    path = tmp_path / "teachers.json"
    teachers = [{"directory": f"fold-{fold}", "fold": fold} for fold in (0, 1)]
    path.write_text(json.dumps({"num_folds": 2, "teachers": teachers}))
    return str(path)


def test_start_teacher_pool_refuses_drop_with_a_store(tmp_path):
    base = {"teachers": ["a", "b"], "store": str(tmp_path / "store"), "on_lost": "drop"}
    with pytest.raises(ConfigError, match=r"on_lost is drop and distillation\.store"):
        start_teacher_pool(load(DistillationConfig, base=base), NLI, ["a", "b"], beside=0)


@pytest.mark.parametrize("kind", [DistillationConfig, MixTeachingConfig])
def test_start_teacher_pool_refuses_drop_with_folds(folds, kind):
    teachers = [folds] if kind is DistillationConfig else {"mnli": "a", "sst2": [folds]}
    settings = load(kind, base={"teachers": teachers, "on_lost": "drop"})
    with pytest.raises(ConfigError, match=r"on_lost is drop and distillation\.teachers"):
        start_teacher_pool(settings, NLI, ["fold-0", "fold-1"], beside=0)
