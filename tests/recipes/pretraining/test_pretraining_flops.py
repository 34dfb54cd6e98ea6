"""Costs of whole configurations."""

from __future__ import annotations

import pytest

from road_ray.config import override
from road_ray.objectives.pretraining.registry import OBJECTIVES
from road_ray.recipes.pretraining.pretraining_flops import cost
from road_ray.verbs import preset_config


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("bert_small", 1.419e18),
        ("bert_base", 6.428e19),
        ("electra_small", 1.294e18),
        ("electra_base", 6.425e19),
        ("electra_large", 7.118e20),
    ],
)
def test_presets_cost_what_the_released_script_says(name, published):
    assert cost(preset_config(name)).train_paper == pytest.approx(published, rel=2e-3)


def test_6nd_counts_the_layers_of_both_networks():
    result = cost(preset_config("electra_small"))
    layers = 12 * (12 * 256**2 + 12 * 64**2)
    assert result.train_6nd == 6 * layers * 128 * 128 * 1_000_000
    assert result.tokens == 128 * 128 * 1_000_000


def test_every_objective_has_a_cost_and_the_order_is_plain():
    small = preset_config("electra_small")
    costs = {n: cost(override(small, {"objective.name": n})).step_paper for n in OBJECTIVES}
    assert costs["mlm"] < costs["replace_mlm"] < costs["all_tokens_mlm"]
    assert costs["electra"] == costs["electra_masked"] == costs["adversarial"]
    assert costs["electra"] < costs["teams"]
    assert costs["electra"] < costs["mc_bert"]


def test_a_frozen_generator_costs_half_and_none_nothing():
    small = preset_config("electra_small")
    joint, frozen, none = (
        cost(override(small, changed)).step_paper
        for changed in ({}, {"generator.frozen": True}, {"generator.kind": "unigram"})
    )
    assert joint - frozen == pytest.approx((joint - none) / 2)


def test_phases_cost_what_their_rows_do():
    base = override(preset_config("electra_base"), {"training.steps": 1000})
    first = {"data.shorter_first.128.fraction": 0.9, "data.shorter_first.128.batch_size": 1024}
    short = {"data.max_length_tokens": 128, "data.batch_size": 1024}
    phased, short = cost(override(base, first)), cost(override(base, short))
    assert phased.train_paper == pytest.approx(
        0.9 * short.train_paper + 0.1 * cost(base).train_paper
    )
    assert phased.tokens == 900 * 1024 * 128 + 100 * 256 * 512
    assert phased.step_paper == phased.train_paper / 1000
    assert phased.infer_paper == cost(base).infer_paper
