"""Arms are overrides of existing verbs and name what they are compared with."""

from __future__ import annotations

import pytest

from road_ray.config import override
from road_ray.recipes.comparison.config import continued_scale, mixture_scale
from road_ray.recipes.comparison.finetuning_arms import COMPARISONS
from road_ray.recipes.distillation.config import DistillConfig
from road_ray.recipes.finetuning.config import FinetuneConfig, TeachersConfig


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_arm_is_a_configuration_of_a_verb(name):
    comparison = COMPARISONS[name]
    names = [arm.name for arm in comparison.arms]
    assert len(set(names)) == len(names)
    for keys in comparison.ensembles.values():
        override(TeachersConfig(), keys)
    for number, arm in enumerate(comparison.arms):
        override(DistillConfig() if arm.teachers else FinetuneConfig(), arm.keys)
        assert not arm.teachers or arm.teachers in comparison.ensembles
        assert set(arm.against) <= set(names)
        assert number == 0 or arm.name not in arm.against
        if arm.stage is not None:
            shared = {"multitask": mixture_scale(), "pretrain": continued_scale()}
            override(shared[arm.stage.verb], arm.stage.keys)


def test_published_figures_are_those_of_the_posts():
    """ROaD-ELECTRA part 1: F1 and EM on SQuAD 2.0, section 5; accuracy on MNLI, section 4."""
    arms = {arm.name: arm.published for arm in COMPARISONS["road_distillation"].arms}
    f1 = {name: figures.get("squad_v2/best_f1") for name, figures in arms.items()}
    assert {name: value for name, value in f1.items() if value} == {
        "none": 90.87,
        "mean": 91.38,
        "weighted_0.75": 91.5,
        "annealing": 91.0,
    }
    arms = {arm.name: arm.published for arm in COMPARISONS["road_multitask"].arms}
    mnli = [figures["mnli/accuracy"] for figures in arms.values()]
    assert mnli == [90.9, 90.8, 91.2, 91.4]
