"""Search spaces by path and by shipped name."""

from __future__ import annotations

import pytest

from road_ray.config import load
from road_ray.errors import ConfigError
from road_ray.recipes.sweep.config import SHIPPED, StageConfig, SweepConfig, locate, shipped

NAMES = {
    *("generator_size", "loss_weight", "temperature", "weighted_kd", "multitask_mix"),
    *("finetune_glue", "pretrain_optimizer", "joint"),
}


def test_every_promised_space_is_shipped_with_its_source_and_cost():
    assert set(shipped()) == NAMES
    for path in shipped().values():
        text = path.read_text(encoding="utf-8")
        assert "# Source: " in text
        assert "# Cost: " in text


@pytest.mark.parametrize("named", ["weighted_kd", "search_spaces/weighted_kd.yaml"])
def test_a_shipped_one_is_found_from_anywhere(named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert locate(named) == SHIPPED / "weighted_kd.yaml"


def test_a_key_of_the_verb_is_told_to_belong_under_overrides(tmp_path):
    (tmp_path / "x.yaml").write_text("verb: finetune\ndata: {root: miniature}\n")
    with pytest.raises(ConfigError, match=r"under 'overrides': \{data: \.\.\.\}"):
        load(SweepConfig, path=tmp_path / "x.yaml")


@pytest.mark.parametrize("named", ["weighted_kdd", "elsewhere/weighted_kd.yaml"])
def test_an_unknown_one_is_told_with_the_nearest(named):
    with pytest.raises(ConfigError, match="did you mean 'weighted_kd'"):
        locate(named)


def test_overrides_of_a_stage_may_be_nested():
    stage = StageConfig(verb="finetune", overrides={"data": {"dataset": "rte"}, "seed": 1})
    assert stage.overrides == {"data.dataset": "rte", "seed": 1}
