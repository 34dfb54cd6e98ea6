"""Which keys a run directory is bound to."""

from __future__ import annotations

from pathlib import Path

import pytest

from road_ray.errors import ConfigError
from road_ray.recipes.distillation.config import DistillationConfig, DistillConfig
from road_ray.recipes.finetuning.config import FinetuneConfig
from road_ray.recipes.recorded_config import RECORD, allowed_inputs, deciding_digest, require_same


def test_deciding_digest_changes_with_what_another_run_is_refused_for():
    plain = deciding_digest(FinetuneConfig())
    assert deciding_digest(FinetuneConfig(run_dir=Path("elsewhere"), workers=2)) == plain
    assert deciding_digest(FinetuneConfig(init="runs/x")) != plain


def test_allowed_inputs_are_teachers_where_others_are_allowed():
    assert allowed_inputs(FinetuneConfig()) == allowed_inputs(DistillConfig()) == set()
    settings = DistillationConfig(allow_other_teachers=True)
    assert allowed_inputs(DistillConfig(distillation=settings)) == {"teachers"}


@pytest.mark.parametrize("recorded", ["", "null\n", "init: another\n"])
def test_require_same_names_the_file_that_holds_another_configuration(tmp_path, recorded):
    (tmp_path / RECORD).write_text(recorded)
    with pytest.raises(ConfigError, match=r"config\.resolved\.yaml"):
        require_same(FinetuneConfig(init="one"), tmp_path)
