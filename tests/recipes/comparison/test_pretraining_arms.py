"""Arms of the published comparisons can be built, and name what they compare."""

from __future__ import annotations

import pytest

from road_ray.config import override
from road_ray.recipes.comparison.pretraining_arms import COMPARISONS
from road_ray.recipes.pretraining.config import laptop_scale
from road_ray.recipes.pretraining.pretraining_flops import cost


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_stage_is_a_configuration_with_a_cost(name):
    comparison = COMPARISONS[name]
    for arm in comparison.arms:
        for stage in arm.stages:
            assert cost(override(laptop_scale(), stage)).step_paper > 0
    names = [arm.name for arm in comparison.arms]
    assert len(set(names)) == len(names)


def test_table_5_is_that_of_the_paper():
    arms = {arm.about: arm.published for arm in COMPARISONS["table5"].arms}
    assert arms == {
        "ELECTRA": 85.0,
        "All-Tokens MLM": 84.3,
        "Replace MLM": 82.4,
        "ELECTRA 15%": 82.4,
        "BERT": 82.2,
    }
