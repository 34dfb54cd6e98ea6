"""What a multi-task pre-training is told."""

from __future__ import annotations

import pytest

from road_ray.config import override
from road_ray.errors import ConfigError
from road_ray.recipes.multitask.config import MixTeachingConfig, MultitaskConfig


def test_all_pools_ask_for_room_together():
    settings = MixTeachingConfig(teachers={"sst2": ("a", "b"), "mnli": "c", "qqp": ()})
    assert settings.total_teachers == 3
    assert settings.of("mnli") == ("c",)
    assert settings.of("qqp") == settings.of("rte") == ()


@pytest.mark.parametrize("changed", [{"data.datasets": []}, {"mixing.passes": 0}])
def test_a_step_draws_something_of_something(changed):
    with pytest.raises(ConfigError, match=next(iter(changed))):
        override(MultitaskConfig(), changed)
