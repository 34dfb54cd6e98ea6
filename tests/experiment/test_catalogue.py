"""Published comparisons: every arm is a configuration of its verbs, and has the papers' figures."""

from __future__ import annotations

import pytest

from road_ray.config import override
from road_ray.experiment.config import CATALOGUE
from road_ray.recipes.pretraining.preview import flops_per_step
from road_ray.recipes.train.config import DistillConfig, FinetuneConfig, TeachersConfig
from road_ray.verbs import configure


def experiment(name):
    return configure("reproduce", overrides={"comparison": name}).compared


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_arm_is_a_configuration_of_a_verb(name):
    config = configure("reproduce", overrides={"comparison": name})
    compared = config.compared
    assert compared.about
    assert compared.source
    for keys in compared.ensembles.values():
        override(TeachersConfig(), keys)
    for number, (arm_name, arm) in enumerate(compared.arms.items()):
        override(DistillConfig() if arm.teachers else FinetuneConfig(), arm.keys)
        assert number == 0 or arm_name not in arm.against
        for stage in arm.stages:
            shared = override(
                getattr(configure("reproduce", overrides={"comparison": name}), stage.verb),
                stage.keys,
            )
            assert not compared.equal or flops_per_step(shared) > 0


def test_published_figures_are_those_of_the_posts():
    """ROaD-ELECTRA part 1: F1 and EM on SQuAD 2.0, section 5; accuracy on MNLI, section 4."""
    arms = {name: arm.published for name, arm in experiment("road_distillation").arms.items()}
    f1 = {name: figures.get("squad_v2/best_f1") for name, figures in arms.items()}
    assert {name: value for name, value in f1.items() if value} == {
        "none": 90.87,
        "mean": 91.38,
        "weighted_0.75": 91.5,
        "annealing": 91.0,
    }
    arms = {name: arm.published for name, arm in experiment("road_multitask").arms.items()}
    mnli = [figures["mnli/accuracy"] for figures in arms.values()]
    assert mnli == [90.9, 90.8, 91.2, 91.4]


def test_table_5_is_that_of_the_paper():
    arms = {arm.about: arm.published["glue/score"] for arm in experiment("table5").arms.values()}
    assert arms == {
        "ELECTRA": 85.0,
        "All-Tokens MLM": 84.3,
        "Replace MLM": 82.4,
        "ELECTRA 15%": 82.4,
        "BERT": 82.2,
    }
